"""The organiser's price books, and the arithmetic on prices."""
