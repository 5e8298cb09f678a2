"""Witness: what a result must have whose runs were made with tickets of a leaderboard's service."""
