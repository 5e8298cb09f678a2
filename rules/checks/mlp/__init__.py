"""MLPerf logs: logs of an MLPerf round that break its rules or contradict themselves."""
