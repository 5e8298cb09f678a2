"""The training workloads: one folder each, which exports `WORKLOAD`."""
