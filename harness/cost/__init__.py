"""The organiser's price books and the arithmetic on them."""
