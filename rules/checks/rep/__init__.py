"""Reproduction: what a result must have so that others can make it again, and what says that it repeats another."""
