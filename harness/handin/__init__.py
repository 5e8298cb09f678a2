"""The client of a leaderboard's service: signing in, submitting, and what became of a submission."""
