"""The log as a file: damaged, missing, doubled or misordered lines."""
