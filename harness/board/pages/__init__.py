"""The site's pages: views of the board, templates, HTML."""
