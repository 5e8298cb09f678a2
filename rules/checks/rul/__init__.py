"""Ruleset: waivers that excuse nothing, targets that may still change."""
