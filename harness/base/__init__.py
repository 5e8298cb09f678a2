"""Knows no word of the competition: clocks, files, streams, strict readers, statistics."""
