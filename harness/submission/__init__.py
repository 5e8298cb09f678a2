"""Submissions on disk: what a submitter hands in, and how it is read, signed and packed."""
