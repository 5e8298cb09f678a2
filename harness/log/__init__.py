"""Run logs and power logs: their lines, and how they are written, read and followed."""
