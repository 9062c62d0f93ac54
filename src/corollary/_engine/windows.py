"""Sums and maxima over few entries, entry by entry: XLA fuses these on a CPU with what comes before and after.

A reduction ends a fusion, and the derivative of pooling (`select_and_scatter_add`) goes through its windows one by one
on one core. Slices that are added or compared are neither: pooling, its derivative, the bias and the activation next to
it become one loop, in the order of axes of the convolution that follows.
"""

import math
from functools import reduce
from itertools import product

import jax.numpy as jnp
import numpy as np
from jax import lax

#: The most entries that are taken one by one: those of a window of 3 times 3.
FEW = 9


def by_entries(eqn, values):
    """The result of one operation on arrays, as operations on entries; None where it has many, or is no reduction."""
    name = eqn.primitive.name
    if name in ("reduce_max", "reduce_sum"):
        (x,), axes = values, tuple(map(int, eqn.params["axes"]))
        if not 1 < math.prod(x.shape[k] for k in axes) <= FEW:
            return None
        several = lax.max if name == "reduce_max" else lax.add
        if min(axes) < 2 or len(axes) < 2 or max(axes) < x.ndim - 1:
            return reduce(several, _entries(x, axes))
        return _channels_first(reduce(several, _entries(_channels_last(x), [k - 1 for k in axes])))
    if name not in ("reduce_window_max", "select_and_scatter_add") or not _apart(eqn.params):
        return None
    window = eqn.params["window_dimensions"]
    if len(window) < 4 or window[:2] != (1, 1) or 1 in window[2:]:
        return _over_windows(values, window)
    return _channels_first(_over_windows([_channels_last(v) for v in values], (1, *window[2:], 1)))


def _over_windows(values, window):
    """The maximum of every window, or, of two values, the first where the second is greatest in its window."""
    blocks, axes = _blocks(values[-1], window)
    if len(values) == 1:
        return reduce(lax.max, _entries(blocks, axes))
    return _to_the_greatest(values[0], values[1].shape, blocks, axes)


def _channels_last(x):
    """Images (n, channels, ...) in the order of axes of XLA's fast convolution, so that they need not be turned."""
    return jnp.moveaxis(x, 1, -1)


def _channels_first(x):
    return jnp.moveaxis(x, -1, 1)


def in_blocks(eqn, x):
    """An image reshaped into blocks or back, its channels last meanwhile, as convolutions have them; None for others.

    A reshape keeps XLA from another order of axes, whatever comes before and after it.
    """
    new = eqn.params["new_sizes"]
    # a constant may be a plain number
    if eqn.params["dimensions"] is not None or jnp.ndim(x) < 4 or x.shape[:2] != new[:2]:
        return None
    if not _blocked(*sorted((x.shape[2:], new[2:]), key=len)):
        return None
    return _channels_first(_channels_last(x).reshape(new[0], *new[2:], new[1]))


def _blocked(sizes, blocks) -> bool:
    """Whether several of `sizes` are split in `blocks`, each into a number of windows and the size of a small one."""
    blocks, windows = list(blocks), []
    for n in sizes:
        count = blocks.pop(0) if blocks else 0
        if count != n:
            windows.append(blocks.pop(0) if blocks else 0)
            if count * windows[-1] != n:
                return False
    return not blocks and len(windows) > 1 and math.prod(windows) <= FEW


def _apart(params) -> bool:
    """Whether windows are small, and lie side by side without padding, so that every entry belongs to one at most."""
    window = params["window_dimensions"]
    dilated = (*params.get("base_dilation", ()), *params.get("window_dilation", ()))
    select = params.get("select_prim")
    return (
        1 < math.prod(window) <= FEW
        and tuple(window) == tuple(params["window_strides"])
        and not np.any(params["padding"])
        and all(d == 1 for d in dilated)
        and (select is None or select.name == "ge")
    )


def _blocks(x, window):
    """`x` with one more axis for the entries of a window, after every axis along which there are windows."""
    counts = [n // r for n, r in zip(x.shape, window, strict=True)]
    x = x[tuple(slice(m * r) for m, r in zip(counts, window, strict=True))]
    shape = [k for m, r in zip(counts, window, strict=True) for k in ((m, r) if r > 1 else (m,))]
    axes = [i + 1 + sum(r > 1 for r in window[:i]) for i, r in enumerate(window) if r > 1]
    return x.reshape(shape), tuple(axes)


def _entries(x, axes):
    """The slices of `x` at every place along `axes`, without these."""
    for place in product(*(range(x.shape[k]) for k in axes)):
        at = dict(zip(axes, place, strict=True))
        yield x[tuple(at.get(k, slice(None)) for k in range(x.ndim))]


def _to_the_greatest(source, shape, blocks, axes):
    """An array of this `shape` with the entries of `source`, each where its window is greatest, first of equals."""
    entries = list(_entries(blocks, axes))
    greatest, first = reduce(lax.max, entries), jnp.full(source.shape, len(entries) - 1, np.int32)
    for number in reversed(range(len(entries) - 1)):
        first = jnp.where(entries[number] == greatest, np.int32(number), first)
    sizes = [blocks.shape[k] if k in axes else 1 for k in range(blocks.ndim)]
    number = np.arange(len(entries), dtype=np.int32).reshape(sizes)
    first, source = (jnp.expand_dims(a, axes) for a in (first, source))
    found = jnp.where(first == number, source, np.zeros((), source.dtype))
    inner = [n // r * r for n, r in zip(shape, _window(blocks, axes), strict=True)]
    return jnp.pad(found.reshape(inner), [(0, n - m) for n, m in zip(shape, inner, strict=True)])


def _window(blocks, axes):
    return [blocks.shape[k + 1] if k + 1 in axes else 1 for k in range(blocks.ndim) if k not in axes]
