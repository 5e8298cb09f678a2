"""Witnessed runs at the submitter's: campaigns and tickets, and the process that sends the heads of the log."""
