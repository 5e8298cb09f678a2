"""Energy: totals that the power logs do not support, such as gaps, wrong clocks, and foreign or copied readings."""
