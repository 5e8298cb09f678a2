"""The leaderboard as a static site, and a small server that keeps it fresh."""
