"""Hyperparameters: settings that the rules do not permit, or that differ between places and runs."""
