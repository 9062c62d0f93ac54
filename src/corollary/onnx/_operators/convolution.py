"""Convolutions."""

from __future__ import annotations

import itertools

import jax.numpy as jnp
import numpy as np

from corollary._engine.operators.convolution import convolve, convolve_transposed, fold, per_channel
from corollary._engine.operators.sampling import sample
from corollary.onnx._operators.windows import halves, pairs, windows
from corollary.onnx._table import integers, operator


@operator("Conv")
def conv(node, x, w, bias=None):
    _, strides, padding, dilation = windows(node, x.shape[2:], w.shape[2:])
    return convolve(x, w, bias, strides, padding, dilation, node["group"])


@operator("ConvTranspose")
def conv_transpose(node, x, w, bias=None):
    n = x.ndim - 2
    strides, dilation = node["strides"] or [1] * n, node["dilations"] or [1] * n
    more = node["output_padding"] or [0] * n
    spans = [d * (k - 1) + 1 for d, k in zip(dilation, w.shape[2:], strict=True)]
    # the length of the result without any padding, of which padding takes away
    whole = [s * (k - 1) + m + span for s, k, m, span in zip(strides, x.shape[2:], more, spans, strict=True)]
    auto, sizes = node["auto_pad"] or "NOTSET", node["output_shape"]
    if not sizes and auto.startswith("SAME"):
        sizes = [k * s for k, s in zip(x.shape[2:], strides, strict=True)]
    if sizes:
        padding = [halves(total - size, auto) for total, size in zip(whole, sizes[-n:], strict=True)]
    else:
        padding = pairs(node["pads"] if auto == "NOTSET" else None, n)
    return convolve_transposed(x, w, bias, strides, padding, dilation, node["group"], more)


@operator("DeformConv")
def deform_conv(node, x, w, offset, bias=None, mask=None):
    """A convolution whose windows read the image at places that are computed too, each entry moved by its offset."""
    n, space, window = x.ndim - 2, x.shape[2:], w.shape[2:]
    _, strides, padding, dilation = windows(node, space, window)
    shared, groups, out = node["offset_group"], node["group"], offset.shape[2:]
    offset = offset.reshape(x.shape[0], shared, -1, n, *out)
    mask = None if mask is None else mask.reshape(x.shape[0], shared, -1, *out)
    base = np.meshgrid(
        *(np.arange(k) * s - low for k, s, (low, _) in zip(out, strides, padding, strict=True)), indexing="ij"
    )
    channels = jnp.split(x, shared, axis=1)
    columns = []
    for entry, place in enumerate(itertools.product(*map(range, window))):
        read = []
        for g in range(shared):
            at = [base[a] + place[a] * dilation[a] + offset[:, g, entry, a] for a in range(n)]
            value = sample(channels[g], at)
            read.append(value if mask is None else value * mask[:, g, entry][:, None])
        columns.append(jnp.concatenate(read, 1))
    columns = jnp.stack(columns, 2)  # batch, channels, entries of the window, *out
    columns = columns.reshape(x.shape[0], groups, -1, columns.shape[2], *out)
    filters = w.reshape(groups, w.shape[0] // groups, w.shape[1], -1)
    y = jnp.einsum("ngce...,goce->ngo...", columns, filters).reshape(x.shape[0], w.shape[0], *out)
    return y if bias is None else y + per_channel(bias, y.ndim)


@operator("Col2Im")
def col2im(node, columns, image_shape, block_shape):
    space, window = integers(image_shape, "the shape of an image"), integers(block_shape, "the shape of a block")
    padding = pairs(node["pads"], len(space))
    return fold(jnp.asarray(columns), space, window, node["strides"], padding, node["dilations"])
