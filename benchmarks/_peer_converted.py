"""The networks of converted.py as PyTorch modules, with the weights of those in Equinox."""

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F


def filled(module, **arrays):
    """The module with these arrays for its parameters."""
    for name, a in arrays.items():
        getattr(module, name).data = torch.tensor(np.asarray(a))
    return module


def convolution(layer):
    sizes = layer.in_channels, layer.out_channels, layer.kernel_size
    made = nn.Conv2d(*sizes, stride=layer.stride, padding=layer.padding[0][0], bias=False)
    return filled(made, weight=layer.weight)


def linear(layer):
    return filled(nn.Linear(layer.in_features, layer.out_features), weight=layer.weight, bias=layer.bias)


def normalised(layer, norm):
    return nn.Sequential(convolution(layer), nn.BatchNorm2d(norm.scale.size))


class Block(nn.Module):
    def __init__(self, block):
        super().__init__()
        self.first, self.second = normalised(block.first, block.norms[0]), normalised(block.second, block.norms[1])
        self.shortcut = nn.Identity() if block.shortcut is None else normalised(*block.shortcut)

    def forward(self, x):
        return F.relu(self.second(F.relu(self.first(x))) + self.shortcut(x))


def resnet(network) -> nn.Module:
    stem = normalised(network.stem, network.norm), nn.ReLU(), nn.MaxPool2d(3, 2, 1)
    head = nn.AdaptiveAvgPool2d(1), nn.Flatten(), linear(network.head)
    return nn.Sequential(*stem, *map(Block, network.blocks), *head).eval()


class Transformer(nn.Module):
    def __init__(self, network):
        super().__init__()
        self.heads = network.heads
        self.norms = nn.ModuleList(nn.LayerNorm(norm.shape) for norm in network.norms)
        self.into, self.out = linear(network.into), linear(network.out)
        self.wide, self.narrow = linear(network.wide), linear(network.narrow)

    def forward(self, x):
        batch, length, width = x.shape
        parts = self.into(self.norms[0](x)).chunk(3, dim=-1)
        query, key, value = (a.view(batch, length, self.heads, -1).transpose(1, 2) for a in parts)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.narrow(F.gelu(self.wide(self.norms[1](x)), approximate="tanh"))
