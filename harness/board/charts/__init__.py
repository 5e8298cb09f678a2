"""Numbers drawn as SVG."""
