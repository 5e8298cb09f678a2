"""Data: data that is not what the rules name, cannot be verified, or was cached before the run."""
