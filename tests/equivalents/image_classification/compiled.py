"""The reference's network, compiled."""


def build_model(network):
    network.compile()
    return network
