"""Products that are summed in bf16."""

import torch


def build_model(network):
    forward = network.forward

    def rough(sources, inputs):
        with torch.autocast(sources.device.type, torch.bfloat16):
            return forward(sources, inputs).float()

    network.forward = rough
    return network
