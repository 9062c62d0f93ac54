"""Convolutions, pooling and normalisation: PyTorch's arguments brought to the kernels that all importers share."""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax

from corollary._engine.operators import convolution, normalisation, pooling
from corollary.network._aten.table import aten


def _each(value, n):
    """One number per spatial axis."""
    value = (value,) if isinstance(value, int) else tuple(value)
    return value * n if len(value) == 1 else value


def _pairs(padding, n):
    return tuple((p, p) for p in _each(padding, n))


def _batched(function):
    """PyTorch's layers also take one example, without an axis for the batch."""

    def call(x, n, *args, **kwargs):
        out = function(x if x.ndim == n + 2 else x[None], *args, **kwargs)
        return out if x.ndim == n + 2 else out[0]

    return call


_convolve, _transposed = _batched(convolution.convolve), _batched(convolution.convolve_transposed)


@aten("conv1d", "conv2d", "conv3d")
def conv(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    n = weight.ndim - 2
    stride, dilation = _each(stride, n), _each(dilation, n)
    if padding == "same":
        total = [d * (k - 1) for d, k in zip(dilation, weight.shape[2:], strict=True)]
        pairs = tuple((t // 2, t - t // 2) for t in total)
    else:
        pairs = _pairs(0 if padding == "valid" else padding, n)
    return _convolve(input, n, weight, bias, stride, pairs, dilation, groups)


@aten("conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
def conv_transpose(input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    n = weight.ndim - 2
    args = _each(stride, n), _pairs(padding, n), _each(dilation, n), groups, _each(output_padding, n)
    return _transposed(input, n, weight, bias, *args)


@aten("convolution")
def convolution_(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups):
    if transposed:
        return conv_transpose(input, weight, bias, stride, padding, output_padding, groups, dilation)
    return conv(input, weight, bias, stride, padding, dilation, groups)


def _windows(x, n, kernel_size, stride, padding, dilation, ceil_mode):
    """Window, strides and pairs of padding; `ceil_mode` pads the far end for a last window that begins inside."""
    window, padding, dilation = _each(kernel_size, n), _each(padding, n), _each(dilation, n)
    strides = _each(stride, n) if stride else window
    pairs = []
    for length, k, s, p, d in zip(x.shape[-n:], window, strides, padding, dilation, strict=True):
        rest = length + 2 * p - d * (k - 1) - 1
        count = (-(-rest // s) if ceil_mode else rest // s) + 1
        if ceil_mode and (count - 1) * s >= length + p:
            count -= 1
        pairs.append((p, max((count - 1) * s - rest + p, p)))
    return window, strides, tuple(pairs), dilation


def _max_pool(n, function):
    def pool(self, kernel_size, stride=(), padding=0, dilation=1, ceil_mode=False):
        args = _windows(self, n, kernel_size, stride, padding, dilation, ceil_mode)
        if self.ndim == n + 2:
            return function(self, *args)
        out = function(self[None], *args)
        return tuple(a[0] for a in out) if isinstance(out, tuple) else out[0]

    return pool


def _average_pool(n):
    def pool(self, kernel_size, stride=(), padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None):
        window, strides, pairs, dilation = _windows(self, n, kernel_size, stride, padding, 1, ceil_mode)
        counted = _pairs(padding, n) if count_include_pad else None
        average = _batched(pooling.average_pool)
        return average(self, n, window, strides, pairs, dilation, counted, divisor_override)

    return pool


def _adaptive(n, function, with_places):
    def pool(self, output_size):
        sizes = tuple(
            length if s is None else s for s, length in zip(_each(output_size, n), self.shape[-n:], strict=True)
        )
        x = self if self.ndim == n + 2 else self[None]
        out = function(x, sizes)
        if self.ndim != n + 2:
            out = tuple(a[0] for a in out) if with_places else out[0]
        return out

    return pool


for _n in (1, 2, 3):
    aten(f"max_pool{_n}d")(_max_pool(_n, pooling.max_pool))
    aten(f"max_pool{_n}d_with_indices")(_max_pool(_n, pooling.max_pool_with_indices))
    aten(f"avg_pool{_n}d")(_average_pool(_n))
    aten(f"adaptive_avg_pool{_n}d", f"_adaptive_avg_pool{_n}d")(_adaptive(_n, pooling.adaptive_average_pool, False))
    aten(f"adaptive_max_pool{_n}d")(_adaptive(_n, pooling.adaptive_max_pool, True))


@aten("batch_norm")
def batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps):
    if training or running_mean is None:
        raise ValueError(
            "the module normalises by the statistics of each batch in inference mode too: make its batch normalisation "
            "track running statistics."
        )
    return normalisation.batch_norm(input, running_mean, running_var, weight, bias, eps)


@aten("_native_batch_norm_legit_no_training")
def batch_norm_by_statistics(input, weight, bias, running_mean, running_var, momentum, eps):
    none = jnp.zeros(0, input.dtype)  # PyTorch returns the statistics of the batch, of which there are none
    return normalisation.batch_norm(input, running_mean, running_var, weight, bias, eps), none, none


@aten("_native_batch_norm_legit.no_stats")
def batch_norm_of_itself(input, weight, bias, training, momentum, eps):
    """By its own statistics, as weights are standardised; with examples they would see each other, which is found."""
    axes = (0, *range(2, input.ndim))
    mean, variance = jnp.mean(input, axes), jnp.var(input, axes)
    return normalisation.batch_norm(input, mean, variance, weight, bias, eps), mean, lax.rsqrt(variance + eps)


def batch_norm_by_the_batch(input, weight, bias, running_mean, running_var, momentum, eps):
    """The same layer by the statistics of all examples that it is mapped over, as it is in training."""
    mean, variance = normalisation.batch_statistics(input, (0, *range(2, input.ndim)))
    out = normalisation.batch_norm(input, mean, variance, weight, bias, eps)
    none = jnp.zeros(0, input.dtype)
    return out, none, none


def by_the_batch(graph):
    """The graph with every batch normalisation by the statistics of the batch; None if there is none in it."""
    normalised = [node.function is batch_norm_by_statistics for node in graph.nodes]
    if not any(normalised):
        return None
    nodes = (
        node._replace(function=batch_norm_by_the_batch) if is_norm else node
        for node, is_norm in zip(graph.nodes, normalised, strict=True)
    )
    return graph._replace(nodes=tuple(nodes))


@aten("instance_norm")
def instance_norm(input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps):
    if not use_input_stats:
        return normalisation.batch_norm(input, running_mean, running_var, weight, bias, eps)
    return normalisation.instance_norm(input, weight, bias, eps)


@aten("group_norm")
def group_norm(input, num_groups, weight=None, bias=None, eps=1e-5):
    return normalisation.group_norm(input, num_groups, weight, bias, eps)


@aten("layer_norm")
def layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-5):
    return normalisation.layer_norm(input, _last(normalized_shape), weight, bias, eps)[0]


@aten("rms_norm")
def rms_norm(input, normalized_shape, weight=None, eps=None):
    eps = jnp.finfo(input.dtype).eps if eps is None else eps
    return normalisation.rms_norm(input, _last(normalized_shape), weight, eps)


def _last(shape):
    return tuple(range(-len(shape), 0))


@aten("im2col")
def im2col(self, kernel_size, dilation, padding, stride):
    unfold = _batched(convolution.unfold)
    return unfold(self, 2, _each(kernel_size, 2), _each(stride, 2), _pairs(padding, 2), _each(dilation, 2))


@aten("col2im")
def col2im(self, output_size, kernel_size, dilation, padding, stride):
    x = self if self.ndim == 3 else self[None]
    args = _each(kernel_size, 2), _each(stride, 2), _pairs(padding, 2), _each(dilation, 2)
    out = convolution.fold(x, tuple(output_size), *args)
    return out if self.ndim == 3 else out[0]
