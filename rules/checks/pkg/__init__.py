"""The submission as a package: manifest, files, claim and code."""
