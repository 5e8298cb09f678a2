"""Rulesets as types, and how they are found and read."""
