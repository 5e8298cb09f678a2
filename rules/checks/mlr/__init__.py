"""One result of an MLPerf round: its runs together, its files and its description."""
