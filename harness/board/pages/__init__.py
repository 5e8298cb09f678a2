"""The leaderboard's pages as HTML."""
