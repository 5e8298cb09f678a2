"""What counts: numbers as versioned YAML, checks as code."""
