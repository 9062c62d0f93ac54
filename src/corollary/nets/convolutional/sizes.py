"""Counting: sizes of outputs, inputs that an output sees, weights that a layer holds."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from corollary._validate import whole
from corollary.catalog import implements
from corollary.nets.convolutional._arguments import per_axis


@implements("B10.10", "M14.19")
def output_size(size: int, window: int, *, stride: int = 1, padding: int = 0, dilation: int = 1) -> int:
    r"""$\lfloor(n+2p-d(m-1)-1)/s\rfloor+1$: how many windows of $m$ entries fit into $n$, moved by $s$ each time.

    `padding` is the number of entries added at each end, or a pair (before, after); with `dilation` $d$ the entries of
    a window are $d$ apart.
    """
    n, m = whole("size", size), whole("window", window)
    s, d = whole("stride", stride), whole("dilation", dilation)
    before, after = per_axis("padding", padding, 2, low=0)
    reach = d * (m - 1) + 1
    if n + before + after < reach:
        raise ValueError(f"a window that spans {reach} entries must fit into {n} with padding, {n + before + after}.")
    return (n + before + after - reach) // s + 1


@implements("B10.13")
def coverage(size: int, window: int, *, stride: int = 1, padding: int = 0) -> np.ndarray:
    """In how many windows each of the `size` entries lies; all ones exactly if the windows are a partition."""
    count = output_size(size, window, stride=stride, padding=padding)
    place = np.arange(size) + padding - stride * np.arange(count)[:, None]
    return ((place >= 0) & (place < window)).sum(axis=0)


@implements("B10.15")
def receptive_field(layers: Sequence[tuple[int, int]]) -> int:
    r"""How many inputs one output sees along an axis: $r_\ell=r_{\ell-1}+(F_\ell-1)\prod_{j<\ell}s_j$, $r_0=1$.

    `layers` is a sequence of (window, stride), of convolutions and poolings alike, from the input on.
    """
    field, jump = 1, 1
    for window, stride in _layers(layers):
        field += (window - 1) * jump
        jump *= stride
    return field


@implements("E04.13", "B10.15", "B10.67", "M14.20")
def convolution_weights(inputs: int, outputs: int, window: int, *, bias: bool = True) -> int:
    r"""$C_{\rm out}(C_{\rm in}\prod F+1)$: the parameters of a convolution, whatever the size of the image."""
    inputs, outputs = whole("inputs", inputs), whole("outputs", outputs)
    return outputs * (inputs * math.prod(per_axis("window", window)) + bool(bias))


@implements("E04.13", "B10.67", "M14.20")
def dense_weights(inputs: int, outputs: int, window: int, size: int, *, stride: int = 1, padding: int = 0) -> int:
    r"""$(C_{\rm in}\prod n)(C_{\rm out}\prod n')$: the weights of the dense layer between the same two arrays.

    `inputs` and `outputs` are numbers of channels, `size` is that of the image: one number for each entry of `window`.
    """
    inputs, outputs, window = whole("inputs", inputs), whole("outputs", outputs), per_axis("window", window)
    size, stride = per_axis("size", size, len(window)), per_axis("stride", stride, len(window))
    padding = per_axis("padding", padding, len(window), low=0)
    after = [output_size(n, m, stride=s, padding=p) for n, m, s, p in zip(size, window, stride, padding, strict=True)]
    return inputs * math.prod(size) * outputs * math.prod(after)


def _layers(layers):
    try:
        pairs = [(window, stride) for window, stride in layers]
    except (TypeError, ValueError):
        raise ValueError(f"layers must be a sequence of pairs (window, stride), got {layers!r}.") from None
    return [(whole("window", window), whole("stride", stride)) for window, stride in pairs]
