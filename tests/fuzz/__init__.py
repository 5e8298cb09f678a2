"""What must hold for any input: properties, and the targets of tests/fuzz/__main__.py."""
