"""Images that are not shifted."""

import torch

from workloads.image_classification import workload

_new_epoch = workload.TrainingSession._new_epoch


def build_model(network):
    return network


def _unshifted(session):
    _new_epoch(session)
    session.shifts_N2 = torch.zeros_like(session.shifts_N2)


workload.TrainingSession._new_epoch = _unshifted
