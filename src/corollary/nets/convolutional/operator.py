r"""Convolution and cross-correlation of finite signals in one to three dimensions.

A finite array stands for a signal on $\mathbb Z^d$ that starts at index 0 and is zero outside. `mode` says which part
of the result is kept: `"full"`, all of its support; `"same"`, as many entries as the signal has, the kernel centred;
`"valid"`, the entries that see no zero from outside; `"circular"`, indices of the signal modulo its size.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float

from corollary._validate import real
from corollary.catalog import implements
from corollary.nets.convolutional._arguments import per_axis, signal_and_kernel


@implements("E04.09", "E04.12", "B10.06", "B10.09")
def convolve(
    f: Float[ArrayLike, "..."], h: Float[ArrayLike, "..."], mode: str = "full", *, stride: int = 1
) -> Float[Array, "..."]:
    r"""$(f*h)[u]=\sum_t h[t]\,f[u-t]$ for arrays with equally many axes; the kernel is `h`.

    The first entry is at $u=0$ in the modes `"full"` and `"circular"`, at $\lfloor(m-1)/2\rfloor$ in `"same"` and at
    $m-1$ in `"valid"` along an axis where the kernel has $m$ entries.

    >>> convolve([1.0, 2.0, 3.0], [1.0, -1.0]).tolist()
    [1.0, 1.0, 1.0, -3.0]
    """
    f, h = signal_and_kernel(f, h, mode, names=("f", "h"))
    return _slide(f, jnp.flip(h), mode, stride, back=True)


@implements("E04.10", "B10.08", "M14.05")
def cross_correlate(
    h: Float[ArrayLike, "..."], f: Float[ArrayLike, "..."], mode: str = "valid", *, stride: int = 1
) -> Float[Array, "..."]:
    r"""$(h\star f)[u]=\sum_t h[t]\,f[u+t]$ for arrays with equally many axes; the kernel is `h`.

    The first entry is at $u=0$ in the modes `"valid"` and `"circular"`, at $-\lfloor m/2\rfloor$ in `"same"` and at
    $1-m$ in `"full"` along an axis where the kernel has $m$ entries.
    """
    f, h = signal_and_kernel(f, h, mode, names=("f", "h"))
    return _slide(f, h, mode, stride, back=False)


@implements("E04.10", "B10.08", "M14.06")
def flip(h: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
    r"""$\bar h[t]=h[-t]$, reversed along every axis, as an array that starts at the first entry of its support."""
    return jnp.flip(real("h", h))


@implements("E04.08")
def impulse_response(transform: Callable, size: int) -> Float[Array, "..."]:
    r"""$Te_0$ for signals of this size: the kernel of the convolution that $T$ is, if linear and shift-equivariant."""
    if not callable(transform):
        raise TypeError(f"transform must be a function of a signal, got {type(transform).__name__}.")
    size = per_axis("size", size)
    return transform(jnp.zeros(size).at[(0,) * len(size)].set(1))


@implements("E04.08")
def shift_average(matrix: Float[ArrayLike, "n n"]) -> Float[Array, "_ _"]:
    r"""$\frac1n\sum_kS^{-k}AS^k$ with the cyclic shift $S$: the nearest matrix to $A$ that commutes with shifts."""
    a = real("matrix", matrix, "n n", {})
    n = a.shape[0]
    i = jnp.arange(n)
    # S^{-k} A S^k has the entry A[i+k, j+k], so that the average depends on i - j alone
    column = jnp.mean(a[(i[:, None] + i) % n, i], axis=1)
    return column[(i[:, None] - i) % n]


def pads(mode: str, window: tuple[int, ...], *, back: bool) -> list[tuple[int, int]]:
    """How many entries come before and after the signal, so that a sliding window gives the part that `mode` keeps.

    In mode `"circular"` a convolution looks back (`back`) and a correlation ahead.
    """
    ends = {
        "full": lambda m: (m - 1, m - 1),
        "same": lambda m: (m // 2, m - 1 - m // 2),
        "valid": lambda m: (0, 0),
        "circular": lambda m: (m - 1, 0) if back else (0, m - 1),
    }[mode]
    return [ends(m) for m in window]


def _slide(f, window, mode, stride, back):
    """The inner products of the window with every piece of the padded signal."""
    around = pads(mode, window.shape, back=back)
    padded = jnp.pad(f, around, mode="wrap" if mode == "circular" else "constant")
    steps = per_axis("stride", stride, f.ndim)
    out = jax.lax.conv_general_dilated(padded[None, None], window[None, None], steps, "VALID", precision="highest")
    return out[0, 0]
