"""Layers of an `Architecture`: each knows its finite form, and what it does to covariances as the widths grow.

`flow` says what comes out for what goes in and refuses what does not fit, `init` and `apply` are the finite layer,
`kernel` the infinitely wide one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from corollary._validate import one_of, real, whole, within
from corollary.kernels import _covariance
from corollary.kernels.dual import activation

PADDINGS = ("SAME", "VALID", "CIRCULAR")


class Flow(NamedTuple):
    """What flows between layers: the shape of one example, and what its law is as the widths grow.

    `random`: the values are functions of random weights, not the inputs; `gaussian`: and jointly Gaussian.
    """

    shape: tuple[int, ...]
    random: bool = False
    gaussian: bool = False


class Dense(eqx.Module):
    r"""$x\mapsto\frac{\sigma_w}{\sqrt d}Wx+\sigma_bb$ with $d$ inputs and `width` outputs."""

    width: int = eqx.field(static=True)
    weight_std: float = 2**0.5
    bias_std: float = 0.0

    def __check_init__(self):
        whole("width", self.width)
        _stds(self)

    def flow(self, flow: Flow) -> Flow:
        if len(flow.shape) != 1:
            raise ValueError(f"Dense needs vectors: put Flatten or GlobalAveragePool before it, got {flow.shape}.")
        return Flow((self.width,), True, True)

    def init(self, shape: tuple[int, ...], dtype: DTypeLike, *, key: PRNGKeyArray) -> PyTree:
        return _draw(self, key, (shape[0], self.width), dtype)

    def apply(self, params: PyTree, x: Float[Array, "..."]) -> Float[Array, "..."]:
        return _affine(self, params, x @ params["weight"] / x.shape[-1] ** 0.5)

    def kernel(self, state: PyTree) -> PyTree:
        return _covariance.affine(state, self.weight_std, self.bias_std)


class Conv(eqx.Module):
    r"""Convolution in one or two dimensions, scaled by the number of weights that an output sees.

    `kernel` is the size of the window along each axis. Padding `"SAME"` puts zeros around, `"CIRCULAR"` repeats the
    image, `"VALID"` puts nothing; all three are exact in the kernels, at any stride.
    """

    channels: int = eqx.field(static=True)
    kernel_size: tuple[int, ...] = eqx.field(static=True, converter=lambda k: (k,) if isinstance(k, int) else tuple(k))
    weight_std: float = 2**0.5
    bias_std: float = 0.0
    padding: str = eqx.field(static=True, default="SAME")
    stride: int = eqx.field(static=True, default=1)

    def __check_init__(self):
        whole("channels", self.channels)
        if len(self.kernel_size) not in (1, 2):
            raise ValueError(f"kernel_size must have one or two entries, got {self.kernel_size}.")
        for size in self.kernel_size:
            whole("kernel_size", size)
        one_of("padding", self.padding, PADDINGS)
        whole("stride", self.stride)
        _stds(self)

    def flow(self, flow: Flow) -> Flow:
        *sizes, _ = flow.shape
        if len(sizes) != len(self.kernel_size):
            raise ValueError(
                f"Conv with kernel_size {self.kernel_size} needs {len(self.kernel_size)} axes of pixels and one of "
                f"channels, got {flow.shape}."
            )
        for size, k in zip(sizes, self.kernel_size, strict=True):
            if k > size:
                raise ValueError(f"kernel_size must be at most the image's {tuple(sizes)}, got {self.kernel_size}.")
        out = (
            1 + (size + sum(self.pads(size, axis)) - self.kernel_size[axis]) // self.stride
            for axis, size in enumerate(sizes)
        )
        return Flow((*out, self.channels), True, True)

    def pads(self, size: int, axis: int) -> tuple[int, int]:
        """How many pixels are added before and after along an axis of this size."""
        if self.padding == "VALID":
            return 0, 0
        window = (self.kernel_size[axis],)
        return tuple(jax.lax.padtype_to_pads((size,), window, (self.stride,), "SAME")[0])

    def init(self, shape: tuple[int, ...], dtype: DTypeLike, *, key: PRNGKeyArray) -> PyTree:
        return _draw(self, key, (*self.kernel_size, shape[-1], self.channels), dtype)

    def apply(self, params: PyTree, x: Float[Array, "..."]) -> Float[Array, "..."]:
        axes = len(self.kernel_size)
        for axis in range(axes):
            x = self._padded(x, (1 + axis,), axis)
        layout = ("NWC", "WIO", "NWC") if axes == 1 else ("NHWC", "HWIO", "NHWC")
        out = jax.lax.conv_general_dilated(
            x, params["weight"], (self.stride,) * axes, "VALID", dimension_numbers=layout
        )
        return _affine(self, params, out / (math.prod(self.kernel_size) * x.shape[-1]) ** 0.5)

    def kernel(self, state: PyTree) -> PyTree:
        return _covariance.affine(_covariance.windows(state, self._window), self.weight_std, self.bias_std)

    def _window(self, q, axes, axis):
        q = self._padded(q, axes, axis)
        size, span = self.kernel_size[axis], q.shape[axes[0]] - self.kernel_size[axis] + 1

        def shifted(offset):
            cut = [slice(None)] * q.ndim
            for a in axes:
                cut[a] = slice(offset, offset + span, self.stride)
            return q[tuple(cut)]

        return sum(shifted(offset) for offset in range(size)) / size

    def _padded(self, q, axes, axis):
        pads = [(0, 0)] * q.ndim
        for a in axes:
            pads[a] = self.pads(q.shape[a], axis)
        if not any(map(any, pads)):
            return q
        return jnp.pad(q, pads, mode="wrap" if self.padding == "CIRCULAR" else "constant")


class Activation(eqx.Module):
    """An activation by name or function, applied entrywise; see `corollary.kernels.dual`."""

    phi: eqx.Module = eqx.field(converter=activation)

    def flow(self, flow: Flow) -> Flow:
        if not flow.gaussian:
            raise ValueError("Activation needs Gaussian inputs: put a Dense or Conv layer right before it.")
        return Flow(flow.shape, True, False)

    def init(self, shape: tuple[int, ...], dtype: DTypeLike, *, key: PRNGKeyArray) -> PyTree:
        return {}

    def apply(self, params: PyTree, x: Float[Array, "..."]) -> Float[Array, "..."]:
        return self.phi(x)

    def kernel(self, state: PyTree) -> PyTree:
        return _covariance.activate(state, self.phi)


class Residual(eqx.Module):
    r"""$x\mapsto x+b(x)$ with a branch $b$ that ends in fresh weights, so that both parts are independent."""

    branch: tuple

    def __init__(self, branch: Sequence[Any]):
        self.branch = checked("branch", branch)
        if not isinstance(self.branch[-1], Dense | Conv):
            raise ValueError(f"branch must end in a Dense or Conv layer, got {type(self.branch[-1]).__name__}.")

    def flow(self, flow: Flow) -> Flow:
        if not flow.random:
            raise ValueError(
                "Residual needs a Dense or Conv layer before it, so that its inputs come from a wide layer too."
            )
        out = flow_through(self.branch, flow)
        if out.shape != flow.shape:
            raise ValueError(f"branch must keep the shape {flow.shape} of its inputs, got {out.shape}.")
        return Flow(flow.shape, True, flow.gaussian)

    def init(self, shape: tuple[int, ...], dtype: DTypeLike, *, key: PRNGKeyArray) -> PyTree:
        return init_layers(self.branch, key, Flow(shape, True, True), dtype)

    def apply(self, params: PyTree, x: Float[Array, "..."]) -> Float[Array, "..."]:
        return x + apply_layers(self.branch, params, x)

    def kernel(self, state: PyTree) -> PyTree:
        return _covariance.add(state, kernel_of(self.branch, state, False))


class Flatten(eqx.Module):
    """All pixels and channels as one vector."""

    def flow(self, flow: Flow) -> Flow:
        return flow._replace(shape=(int(np.prod(flow.shape)),))

    def init(self, shape: tuple[int, ...], dtype: DTypeLike, *, key: PRNGKeyArray) -> PyTree:
        return {}

    def apply(self, params: PyTree, x: Float[Array, "..."]) -> Float[Array, "..."]:
        return x.reshape(x.shape[0], -1)

    def kernel(self, state: PyTree) -> PyTree:
        return _covariance.mean_over_places(state, pool=False) if state.pixels else state


class GlobalAveragePool(eqx.Module):
    """The mean over the pixels of each channel. Its kernels need the covariance of every pair of pixels."""

    def flow(self, flow: Flow) -> Flow:
        if len(flow.shape) < 2:
            raise ValueError(f"GlobalAveragePool needs axes of pixels and one of channels, got {flow.shape}.")
        return flow._replace(shape=flow.shape[-1:])

    def init(self, shape: tuple[int, ...], dtype: DTypeLike, *, key: PRNGKeyArray) -> PyTree:
        return {}

    def apply(self, params: PyTree, x: Float[Array, "..."]) -> Float[Array, "..."]:
        return jnp.mean(x, tuple(range(1, x.ndim - 1)))

    def kernel(self, state: PyTree) -> PyTree:
        return _covariance.mean_over_places(state, pool=True)


def pools(layers) -> bool:
    """Whether any layer pools: then every pair of pixels is needed."""
    return any(
        isinstance(layer, GlobalAveragePool) or (isinstance(layer, Residual) and pools(layer.branch))
        for layer in layers
    )


def flow_through(layers, flow: Flow) -> Flow:
    """What comes out of all layers."""
    for layer in layers:
        flow = layer.flow(flow)
    return flow


def init_layers(layers, key, flow, dtype):
    """Parameters of all layers, in their order."""
    params = []
    for layer, k in zip(layers, jax.random.split(key, len(layers)), strict=True):
        after = layer.flow(flow)  # refuses what does not fit before anything is drawn
        params.append(layer.init(flow.shape, dtype, key=k))
        flow = after
    return tuple(params)


def apply_layers(layers, params, x):
    """The finite layers, one after the other."""
    for layer, p in zip(layers, params, strict=True):
        x = layer.apply(p, x)
    return x


def kernel_of(layers, state, apart: bool):
    """The covariances after all layers; `apart`: with every activation as a computation of its own."""
    for layer in layers:
        if isinstance(layer, Residual):
            state = _covariance.add(state, kernel_of(layer.branch, state, apart))
        elif apart and isinstance(layer, Activation):
            state = _covariance.apart(layer.kernel, state)
        else:
            state = layer.kernel(state)
    return state


def activations(layers) -> int:
    """How many entrywise layers there are, in branches too."""
    return sum(activations(a.branch) if isinstance(a, Residual) else isinstance(a, Activation) for a in layers)


def _draw(layer, key, shape, dtype):
    weight_key, bias_key = jax.random.split(key)
    weight = {"weight": jax.random.normal(weight_key, shape, dtype)}
    if not isinstance(layer.bias_std, jax.core.Tracer) and layer.bias_std == 0:
        return weight  # no parameter that has no effect
    return weight | {"bias": jax.random.normal(bias_key, shape[-1:], dtype)}


def _affine(layer, params, out):
    out = layer.weight_std * out
    return out + layer.bias_std * params["bias"] if "bias" in params else out


def _stds(layer):
    for name in ("weight_std", "bias_std"):
        within(name, real(name, getattr(layer, name), ""), 0.0)


def checked(name, layers) -> tuple:
    """A tuple of layers, or one sentence."""
    layers = tuple(layers) if isinstance(layers, tuple | list) else (layers,)
    if not layers:
        raise ValueError(f"{name} must have at least one layer.")
    for layer in layers:
        if not all(callable(getattr(layer, m, None)) for m in ("flow", "init", "apply", "kernel")):
            raise TypeError(f"{name} must hold layers such as Dense or Activation, got {type(layer).__name__}.")
    return layers
