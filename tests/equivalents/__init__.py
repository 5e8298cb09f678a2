"""Reimplementations for the closed division: some compute what the reference does, some nearly."""
