"""Quality: missed targets, and evaluations that are missing, misplaced or contradict the status of the run."""
