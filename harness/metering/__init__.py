"""Reads power and energy meters during a run."""
