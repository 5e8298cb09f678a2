"""System: descriptions that are missing, incomplete or contradicted by the runs."""
