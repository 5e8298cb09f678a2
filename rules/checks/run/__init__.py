"""The runs of a result together: how many, which seeds, whether they are distinct."""
