"""AdamW written out, for all weights at once."""

import torch


def build_optimizer(network, recipe):
    betas = recipe.opt_adamw_beta_1, recipe.opt_adamw_beta_2
    weights = [weight for weight in network.parameters() if weight.requires_grad]
    return _Flat(weights, betas, recipe.opt_adamw_epsilon, recipe.opt_adamw_weight_decay)


class _Flat(torch.optim.Optimizer):
    def __init__(self, weights, betas, epsilon, decay):
        super().__init__(weights, {"lr": 0.0, "betas": betas, "epsilon": epsilon, "decay": decay})

    @torch.no_grad()
    def step(self, closure=None):
        (group,) = self.param_groups
        weights, (first, second) = group["params"], group["betas"]
        flat = torch.cat([weight.flatten() for weight in weights])
        gradient = torch.cat([weight.grad.flatten() for weight in weights])
        state = self.state[weights[0]]
        state["steps"] = steps = state.get("steps", 0) + 1
        state["mean"] = mean = first * state.get("mean", 0.0) + (1 - first) * gradient
        state["square"] = square = second * state.get("square", 0.0) + (1 - second) * gradient**2
        flat *= 1 - group["lr"] * group["decay"]
        flat -= group["lr"] / (1 - first**steps) * mean / ((square / (1 - second**steps)).sqrt() + group["epsilon"])
        for weight, part in zip(weights, flat.split([weight.numel() for weight in weights]), strict=True):
            weight.copy_(part.view_as(weight))
