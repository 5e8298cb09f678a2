"""An MLPerf round as data, and a log held against it; pure."""
