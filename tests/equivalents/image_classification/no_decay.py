"""The optimiser without the decay of weights."""

import torch


def build_optimizer(network, recipe):
    return torch.optim.SGD(network.parameters(), lr=0.1, momentum=recipe.opt_momentum, nesterov=True, fused=True)
