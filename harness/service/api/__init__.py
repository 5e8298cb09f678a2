"""The interface for programs, /api/v1: one module per subject."""
