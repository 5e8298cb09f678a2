"""One log of an MLPerf round, held against that round's rules."""
