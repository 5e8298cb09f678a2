"""A loss of its own: the same sum, over the pieces that count alone."""

from torch.nn import functional

SMOOTHING = 1.0  # of the recipe's


def build_model(network):
    return network


def _cross_entropy(logits, labels, ignore_index, reduction, label_smoothing):
    assert reduction == "sum"
    counts = labels != ignore_index
    log = functional.log_softmax(logits[counts], 1)
    of_label = log.gather(1, labels[counts][:, None])[:, 0]
    smoothing = SMOOTHING * label_smoothing
    return -((1 - smoothing) * of_label + smoothing * log.mean(1)).sum()


functional.cross_entropy = _cross_entropy
