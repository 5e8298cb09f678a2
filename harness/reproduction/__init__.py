"""Whether a claimed result is true: the same benchmark run again, and a verdict with its power."""
