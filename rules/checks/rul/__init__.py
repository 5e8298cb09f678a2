"""Ruleset: waivers that excuse nothing."""
