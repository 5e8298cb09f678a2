"""Both kinds of log: their lines, writing, reading, following."""
