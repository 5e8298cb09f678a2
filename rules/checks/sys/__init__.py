"""The system description, and whether the runs match it."""
