"""Where each number comes from, and whether stated totals agree."""
