"""Identity: code, packages and loaded files that are unknown, changed or mixed."""
