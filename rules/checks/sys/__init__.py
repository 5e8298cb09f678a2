"""The system description: whether it is complete, and whether the runs match it."""
