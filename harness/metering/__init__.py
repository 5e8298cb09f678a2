"""Reads power during a run."""
