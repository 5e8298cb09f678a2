"""Power logs to joules, uncertainty and reasons; pure."""
