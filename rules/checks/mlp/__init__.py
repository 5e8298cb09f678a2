"""One log of an MLPerf round: its lines and values, held against that round's rules."""
