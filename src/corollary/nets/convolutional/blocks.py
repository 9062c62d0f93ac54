r"""What residual and dense networks are made of: convolutions and normalisation of whole batches of images.

Inside these networks a batch has the axes (example, row, column, channel), the order that accelerators are fastest
in, and every layer is one convolution of the whole batch. A layer has a `state`, the running statistics of its
normalisation, and is called as `layer(x, state, training)`, which returns the output and the new state.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax

from corollary._validate import real, whole
from corollary.nets.initialisations import he_normal, uniform_fan_in
from corollary.nets.normalisation import BatchMoments, BatchNorm


class ConvNorm(eqx.Module):
    """A square convolution, zero-padded so that stride 1 keeps the size, and batch normalisation after it.

    In training the bias, if there is one, is left out: normalisation would take it out again. It counts in the running
    mean, and so afterwards.
    """

    kernel: jax.Array
    bias: jax.Array | None
    norm: BatchNorm
    stride: int = eqx.field(static=True)

    def __init__(self, inputs: int, outputs: int, window: int = 3, stride: int = 1, *, key, bias: bool = False):
        self.kernel = draw_kernel(inputs, outputs, window, key=key)
        self.bias = jnp.zeros(outputs) if bias else None
        self.norm = BatchNorm(outputs)
        self.stride = whole("stride", stride)

    def state(self) -> BatchMoments:
        return self.norm.state()

    def __call__(self, x, state, training: bool):
        out = batch_convolve(x, self.kernel, self.stride)
        if not training:
            return self.norm(out if self.bias is None else out + self.bias.astype(x.dtype), state), state
        out, state = self.norm.batch(out, state)
        if self.bias is not None:
            state = state._replace(mean=state.mean + (1 - self.norm.momentum) * lax.stop_gradient(self.bias))
        return out, state


class NormConv(eqx.Module):
    """Batch normalisation, ReLU, and then the convolution: the order in dense networks."""

    norm: BatchNorm
    kernel: jax.Array

    def __init__(self, inputs: int, outputs: int, window: int = 3, *, key):
        self.norm = BatchNorm(inputs)
        self.kernel = draw_kernel(inputs, outputs, window, key=key)

    def state(self) -> BatchMoments:
        return self.norm.state()

    def __call__(self, x, state, training: bool):
        out, state = self.norm.batch(x, state) if training else (self.norm(x, state), state)
        return batch_convolve(jax.nn.relu(out), self.kernel), state


class Head(eqx.Module):
    """The affine layer to the classes, in the precision of its parameters."""

    weight: jax.Array
    bias: jax.Array

    def __init__(self, inputs: int, outputs: int, *, key):
        self.weight = uniform_fan_in(key, (whole("classes", outputs), inputs), jnp.result_type(float))
        self.bias = jnp.zeros(outputs)

    def __call__(self, x):
        return x.astype(self.weight.dtype) @ self.weight.T + self.bias


def draw_kernel(inputs: int, outputs: int, window: int, *, key):
    """He's normal kernel (window, window, inputs, outputs)."""
    inputs, outputs, window = whole("inputs", inputs), whole("outputs", outputs), whole("window", window)
    flat = he_normal(key, (outputs, window * window * inputs), jnp.result_type(float))
    return flat.reshape(outputs, window, window, inputs).transpose(1, 2, 3, 0)


def batch_convolve(x, kernel, stride: int = 1):
    """One convolution of the batch in the precision of `x`, padded by half of the window on all sides."""
    kernel = kernel.astype(x.dtype)
    if x.dtype.itemsize < 4 and (rest := -x.shape[-1] % 8):
        # the fast routines for 16 bits take channels by eights: colours get some that are zero
        x, kernel = (jnp.pad(a, [(0, 0)] * (3 - i) + [(0, rest)] + [(0, 0)] * i) for a, i in ((x, 0), (kernel, 1)))
    pad = (kernel.shape[0] // 2,) * 2
    return lax.conv_general_dilated(x, kernel, (stride, stride), (pad, pad), dimension_numbers=("NHWC", "HWIO", "NHWC"))


def batch_max_pool(x, window: int = 2):
    """The largest of each block, blocks side by side; what does not fill a block is left out.

    As a maximum over axes, which compiles into its neighbours; the scatter of a windowed maximum's derivative does not.
    """
    n, h, w, c = x.shape
    h, w = h // window, w // window
    return x[:, : h * window, : w * window].reshape(n, h, window, w, window, c).max(axis=(2, 4))


def to_batch(x, channels: int, dtype):
    """Images (n, channels, rows, columns) as a batch in the inner order and precision."""
    x = real("x", x, f"n {channels} h w", finite=False)
    return jnp.transpose(x if dtype is None else x.astype(dtype), (0, 2, 3, 1))


def states(layers):
    """The states of layers, in the tree that they stand in."""
    return jax.tree.map(lambda layer: layer.state(), layers, is_leaf=lambda node: hasattr(node, "state"))


def run(layers, x, state, training: bool):
    """Layers in a row: the output and their new states."""
    new = []
    for layer, old in zip(layers, state, strict=True):
        x, moved = layer(x, old, training)
        new.append(moved)
    return x, tuple(new)
