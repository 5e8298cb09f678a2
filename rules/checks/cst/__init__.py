"""Cost: stated amounts, prices that cannot be used, and bills that contradict the runs."""
