"""The pages for people, made from the same functions as the interface for programs."""
