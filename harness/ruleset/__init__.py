"""The rules as types, and how they are read and found."""
