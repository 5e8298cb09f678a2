"""Power and energy: meters, coverage, clocks and totals."""
