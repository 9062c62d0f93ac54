"""Arguments that the functions of this package share, checked."""

import equinox as eqx
import jax.numpy as jnp

from corollary._validate import one_of, real, whole

MODES = ("full", "same", "valid", "circular")


def per_axis(name: str, value, axes: int | None = None, low: int = 1) -> tuple[int, ...]:
    """`value` as one whole number an axis; a single number counts for every axis."""
    if isinstance(value, tuple | list):
        out = tuple(whole(name, v, low) for v in value)
    else:
        out = (whole(name, value, low),) * (axes or 1)
    if not out or (axes is not None and len(out) != axes):
        raise ValueError(f"{name} must be one number or one for each of {axes or 'the'} axes, got {value!r}.")
    return out


def signal_and_kernel(f, h, mode, names):
    """Both as arrays of one dtype with one to three axes; the kernel no larger than the signal where that matters."""
    f, h = real(names[0], f), real(names[1], h)
    one_of("mode", mode, MODES)
    if f.ndim not in (1, 2, 3) or f.size == 0:
        raise ValueError(f"{names[0]} must be a signal with one to three axes and not empty, got shape {f.shape}.")
    if h.ndim != f.ndim or h.size == 0:
        raise ValueError(f"{names[1]} must have {f.ndim} axes like {names[0]} and not be empty, got shape {h.shape}.")
    if mode in ("valid", "circular") and any(m > n for m, n in zip(h.shape, f.shape, strict=True)):
        raise ValueError(f"{names[1]} must be no larger than {names[0]} in mode {mode!r}, got {h.shape} and {f.shape}.")
    dtype = jnp.result_type(f, h)
    return f.astype(dtype), h.astype(dtype)


def image_and_kernel(x, kernel, bias, stride, padding):
    """An image, kernels and biases of one dtype that fit together, and stride and padding for each axis of space."""
    kernel = real("kernel", kernel)
    if kernel.ndim not in (3, 4, 5) or kernel.size == 0:
        raise ValueError(f"kernel must have shape (outputs, channels, *window), got {kernel.shape}.")
    outputs, channels, *window = kernel.shape
    x = real("x", x, " ".join([str(channels), *(f"n{axis}" for axis in range(len(window)))]), finite=False)
    bias = jnp.zeros(outputs, kernel.dtype) if bias is None else real("bias", bias, f"{outputs}")
    stride = per_axis("stride", stride, len(window))
    padding = per_axis("padding", padding, len(window), low=0)
    if any(n + 2 * p < m for n, p, m in zip(x.shape[1:], padding, window, strict=True)):
        raise ValueError(f"kernel must fit into the padded image, got {tuple(window)} for an image of {x.shape[1:]}.")
    dtype = jnp.result_type(x, kernel, bias)
    return x.astype(dtype), kernel.astype(dtype), bias.astype(dtype), stride, padding


def plain_layer(layer) -> eqx.nn.Conv:
    """An Equinox convolution in one group, with a stated number of zeros around the input."""
    if not isinstance(layer, eqx.nn.Conv):
        raise TypeError(f"layer must be an equinox.nn.Conv, got {type(layer).__name__}.")
    if layer.groups != 1 or isinstance(layer.padding, str) or layer.padding_mode != "ZEROS":
        raise ValueError(
            "layer must have one group and a number of zeros as padding, "
            f"got groups={layer.groups}, padding={layer.padding!r}, padding_mode={layer.padding_mode!r}."
        )
    return layer
