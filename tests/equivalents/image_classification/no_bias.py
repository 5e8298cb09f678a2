"""The head without its bias."""


def build_model(network):
    network.head.forward = lambda features: features @ network.head.weight.t() + 0 * network.head.bias
    return network
