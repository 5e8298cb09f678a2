"""The leaderboard: rows, ranks and pages."""
