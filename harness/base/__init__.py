"""What knows nothing of the competition: clocks, files, streams, strict readers, statistics."""
