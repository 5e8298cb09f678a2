"""Nesterov's momentum over one flat tensor of all weights."""

import torch


def build_optimizer(network, recipe):
    return _Flat(network.parameters(), recipe.opt_momentum, recipe.opt_weight_decay)


class _Flat(torch.optim.Optimizer):
    def __init__(self, parameters, momentum, decay):
        super().__init__(parameters, {"lr": 0.0, "momentum": momentum, "decay": decay})

    @torch.no_grad()
    def step(self, closure=None):
        (group,) = self.param_groups
        weights = group["params"]
        flat = torch.cat([weight.flatten() for weight in weights])
        gradient = torch.cat([weight.grad.flatten() for weight in weights]) + group["decay"] * flat
        state = self.state[weights[0]]
        state["mean"] = mean = group["momentum"] * state.get("mean", 0.0) + gradient
        flat -= group["lr"] * (gradient + group["momentum"] * mean)
        for weight, part in zip(weights, flat.split([weight.numel() for weight in weights]), strict=True):
            weight.copy_(part.view_as(weight))
