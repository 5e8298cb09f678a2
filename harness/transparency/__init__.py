"""The transparency log: a Merkle tree of commitments to events, its checkpoints and its tiles; pure."""
