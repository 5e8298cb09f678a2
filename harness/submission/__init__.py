"""What is handed in, as it is on disk."""
