"""Runs checks and shows findings."""
