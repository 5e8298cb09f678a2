"""Signatures: who signed a submission, and whether it still is what was signed."""
