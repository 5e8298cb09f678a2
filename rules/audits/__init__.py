"""Audit: signals that raise a question and never decide a result."""
