"""Logs and rules to numbers; pure."""
