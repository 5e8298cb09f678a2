"""Logs: lines that are damaged, missing, repeated, out of order or malformed."""
