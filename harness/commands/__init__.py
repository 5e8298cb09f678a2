"""One file a verb; two commands never import each other."""
