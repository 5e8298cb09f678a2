"""Equivalence: reimplementations in the closed division, and whether they were shown to compute the same."""
