"""Products that are summed in bf16."""

import torch


def build_model(network):
    forward = network.forward

    def rough(images):
        with torch.autocast(images.device.type, torch.bfloat16):
            return forward(images).float()

    network.forward = rough
    return network
