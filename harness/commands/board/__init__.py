"""`tta board`: one module for each group of its actions."""
