"""Runs: results with the wrong number of runs, with copies or chosen runs, or with runs that do not belong together."""
