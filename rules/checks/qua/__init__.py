"""Quality: targets, evaluations and what the log concludes from them."""
