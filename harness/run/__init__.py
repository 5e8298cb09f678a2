"""One benchmark run, refereed."""
