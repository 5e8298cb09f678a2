"""Cost: prices, billing and what a result claims to have cost."""
