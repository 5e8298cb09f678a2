"""Logs and rules -> times, scores, costs and targets; pure."""
