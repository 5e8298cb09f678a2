"""What counts: numbers as versioned YAML, checks as files."""
