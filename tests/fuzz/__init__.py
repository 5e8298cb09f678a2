"""What must hold for any input: properties, and the targets of `python -m tests.fuzz`."""
