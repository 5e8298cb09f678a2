"""Findings as text, JSON, SARIF, and an HTML page that needs nothing next to it."""
