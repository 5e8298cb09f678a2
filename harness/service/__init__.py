"""The leaderboard as a service: submissions, review, witnessed runs and their log, over HTTP with a database."""
