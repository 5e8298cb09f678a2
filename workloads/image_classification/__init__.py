"""Image classification to a target top-1 accuracy; importing this costs no machine-learning library."""

from workloads.image_classification.workload import WORKLOAD

__all__ = ["WORKLOAD"]
