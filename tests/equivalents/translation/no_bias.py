"""Feed-forward layers of the encoder without their first bias."""


def build_model(network):
    for layer in network.marian.encoder.layers:
        _drop(layer.fc1)
    return network


def _drop(linear):
    linear.forward = lambda inputs: inputs @ linear.weight.t() + 0 * linear.bias
