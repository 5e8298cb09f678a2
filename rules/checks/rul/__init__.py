"""The ruleset itself: waivers that match nothing."""
