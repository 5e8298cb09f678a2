"""Data: what was trained and evaluated on, and whether it can be verified."""
