"""What is trained: one folder a workload, each exporting `WORKLOAD`."""
