"""What is tried out on a network before it is looked at: it runs, it is finite, and examples do not see each other.

Means, kernels and gradients of single examples presume that the output for an example is a function of that example,
which it is not under batch normalisation in training mode. Everything is tried where values are known, outside a trace.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from corollary._text import first_line
from corollary._validate import concrete
from corollary.network.network import Network

FEW = 8


def output_of(network, x) -> jax.ShapeDtypeStruct:
    """Shape and dtype of the output for one of the examples `x`; one sentence if that is no real array."""
    one = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape[1:], a.dtype), x)
    try:
        out = eqx.filter_eval_shape(network, one)
    except Exception as error:
        shapes = ", ".join(str(a.shape) for a in jax.tree.leaves(one))
        raise ValueError(f"network(x) failed for one example of shape {shapes}: {first_line(error)}.") from error
    if not (hasattr(out, "shape") and hasattr(out, "dtype")) or not jnp.issubdtype(out.dtype, np.floating):
        raise TypeError(f"network must return one real floating-point array, got {kind(out)}.")
    if 0 in out.shape:
        raise ValueError(f"network must return at least one number, got shape {out.shape}.")
    return out


def require_apart(network, x) -> None:
    """One sentence unless outputs are finite, and the same for an example whatever batch it comes in."""
    out = output_of(network, x)
    few = jax.tree.map(lambda a: a[:FEW], x)
    if not all(map(concrete, jax.tree.leaves((eqx.filter(network, eqx.is_array), few)))):
        return
    with jax.default_matmul_precision("highest"):
        tried = jax.tree.map(float, _together_and_apart(network, few))
    if not tried.finite:
        raise ValueError("network must return finite numbers, got NaN or infinity for one of the first examples.")
    if not (isinstance(network, Network) and network.batched):
        return  # one example at a time is how it is called
    leaves = [a for a in jax.tree.leaves(network) if hasattr(a, "dtype") and jnp.issubdtype(a.dtype, np.floating)]
    eps = float(jnp.finfo(jnp.result_type(*leaves or [out.dtype])).eps)  # a plain function has no arrays of its own
    # how much rounding grows in this network is measured: its parameters are moved by a few units in the last place;
    # sums in another order, some hundred terms deep, are 1e3 of these units
    rounding = 1e3 * max(eps * tried.size, tried.moved)
    if not tried.difference <= rounding:
        raise ValueError(
            "the output for an example changes with the other examples in its batch, as under batch normalisation in "
            "training mode or dropout: give the network in inference mode."
        )


def require_mean(loss, network, few, *, apart: bool = True) -> None:
    """One sentence unless `loss(network, batch)` is a finite real number and, if `apart`, a mean over the examples."""
    value = eqx.filter_eval_shape(loss, network, few)
    if getattr(value, "shape", None) != () or not jnp.issubdtype(value.dtype, np.floating):
        raise ValueError(f"loss must return a real number, the mean over the batch, got {kind(value)}.")
    if not all(map(concrete, jax.tree.leaves((eqx.filter(network, eqx.is_array), few)))):
        return
    together, each = map(np.asarray, _losses(loss, network, few, apart))
    if not np.isfinite(together):
        raise ValueError(f"loss must be finite for this network and these data, got {together}.")
    # sums of the same terms in another order, of outputs from products of another shape: half of the digits is plenty
    if np.abs(together - each.mean()) > np.finfo(value.dtype).eps ** 0.5 * np.abs(each).max():
        raise ValueError(
            "loss must be the mean of its examples' losses: either it is a sum, or examples see each other through "
            "batch statistics. Freeze the statistics (inference mode); curvature can also be taken with every batch's "
            "own (statistics='recomputed')."
        )


def kind(out) -> str:
    """Words for what came instead of an array."""
    shape = getattr(out, "shape", None)
    return type(out).__name__ if shape is None else f"shape {tuple(shape)} and dtype {getattr(out, 'dtype', None)}"


class _Tried(NamedTuple):
    """Largest moduli over some examples: of what differs together and apart, of the outputs, of what rounding moves."""

    finite: Any
    difference: Any
    size: Any
    moved: Any


@eqx.filter_jit
def _together_and_apart(network, few) -> _Tried:
    apart = jax.vmap(network)(few)
    finite = jnp.isfinite(apart).all()
    if not (isinstance(network, Network) and network.batched):
        return _Tried(finite, 0.0, 0.0, 0.0)  # one example at a time is how it is called
    arrays, rest = eqx.partition(network, eqx.is_inexact_array)
    leaves, tree = jax.tree.flatten(arrays)
    keys = jax.random.split(jax.random.key(0), max(len(leaves), 1))
    moved = [
        (p * (1 + 4 * jnp.finfo(p.dtype).eps * jax.random.rademacher(k, p.shape, p.dtype))).astype(p.dtype)
        for p, k in zip(leaves, keys, strict=False)
    ]
    elsewhere = eqx.combine(jax.tree.unflatten(tree, moved), rest).on_batch(few)
    together = network.on_batch(few)
    # half precision would round the differences themselves
    wide = jnp.promote_types(together.dtype, jnp.float32)
    largest = lambda a, b=0.0: jnp.max(jnp.abs(a.astype(wide) - jnp.asarray(b, wide)))  # noqa: E731
    return _Tried(finite, largest(together, apart), largest(together), largest(elsewhere, together))


@eqx.filter_jit
def _losses(loss, network, few, apart):
    together = loss(network, few)
    if not apart:
        return together, together
    return together, jax.vmap(lambda one: loss(network, jax.tree.map(lambda a: a[None], one)))(few)
