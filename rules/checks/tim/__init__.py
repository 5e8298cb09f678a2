"""Time: work hidden from the clock, overspent budgets, and times that contradict each other."""
