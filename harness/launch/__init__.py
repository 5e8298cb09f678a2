"""Several nodes: how they are reached, what is compared before a run, and the helper on each of them."""
