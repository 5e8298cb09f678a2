"""The audit: suspicions, never a verdict."""
