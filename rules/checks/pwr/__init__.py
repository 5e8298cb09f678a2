"""Hunts energy that its power logs do not support: missing meters, gaps, wrong clocks, foreign or copied readings."""
