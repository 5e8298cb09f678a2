"""MLPerf rounds: their rules as data, a log or a result held against them. Pure."""
