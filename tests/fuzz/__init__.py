"""What must hold for any input: properties, and the targets of scripts/fuzz.py."""
