"""Signatures: signatures that are missing, unreadable or not those of the submitter."""
