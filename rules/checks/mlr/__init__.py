"""MLPerf results: results of an MLPerf round whose runs, files or descriptions break its rules."""
