"""What a machine, a network and a training step are like: measured apart from any run, and never ranked."""
