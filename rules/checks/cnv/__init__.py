"""Convergence: results that need fewer samples than the reference allows, or have no reference."""
