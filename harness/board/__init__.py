"""The leaderboard as a static site, and a small server that keeps it fresh.

index      tree -> Board: every result read, judged and scored once; heads: what a log says of itself
views      rows and entries -> what the templates place
pages      Board -> pages and data files, as bytes by path
charts     numbers -> SVG; also strips (a row's runs), svg (the frame) and scales (numbers -> places)
words      numbers and untrusted texts -> what a reader sees
documents  a check's docstring -> headings, paragraphs and code
tables     Board -> JSON and CSV
site       bytes by path -> a folder that appears all at once
service    the folder over HTTP, rebuilt when the tree changes
"""
