r"""How far the attention of any network is spread, found in its traced program.

Attention is a product of two signals one of which is an exponential, divided by its sum along what the product sums
over, before the product or after it. So it is found in networks of every library, however they write it down.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from corollary._engine.program import Program, depends, evaluate, trace
from corollary._show import shown
from corollary._types import NetworkLike
from corollary._validate import whole
from corollary.network.apart import output_of
from corollary.network.batches import arrange, examples, fold
from corollary.network.parts import require_network

# what stands between an exponential and the product: moves, masks, casts, factors
_MOVES = ("reshape", "transpose", "squeeze", "expand_dims", "broadcast_in_dim", "slice", "concatenate", "pad")
_BETWEEN = frozenset((*_MOVES, "convert_element_type", "copy", "stop_gradient", "div", "mul", "select_n"))


class AttentionSpread(NamedTuple):
    r"""The attention of every block, in the order of the program: arrays of one number for each.

    `entropy` is the mean of $-\sum_ja_{ij}\ln a_{ij}$ over examples, heads and queries, as a share of its largest
    value, that of equal weights on the keys that the query may see: 1 for a plain mean, 0 for one key. `largest` is the
    mean of the largest weight, `logits` the largest difference of two logits that a query compares.
    """

    entropy: np.ndarray
    largest: np.ndarray
    logits: np.ndarray

    __repr__ = shown


def attention_spread(network: NetworkLike, x: PyTree, *, batch_size: int = 16) -> AttentionSpread:
    """How far every attention of `network` is spread on the examples `x`; empty arrays if it has none.

    Attention inside a loop over time is not looked at, loops over layers are. A key that gets no weight at its place in
    any example is one that may not be seen.

    >>> pooled = lambda keys: jax.nn.softmax(keys @ jnp.ones(1)) @ keys
    >>> attention_spread(pooled, jnp.zeros((4, 3, 1))).entropy.tolist()
    [1.0]
    """
    require_network(network)
    x = examples("x", x)
    output_of(network, x)  # a sentence where they do not fit
    parts = arrange(x, whole("batch_size", batch_size))
    allowed = fold(_allowed, (network,), parts, partial(jax.tree.map, jnp.logical_or))
    if not allowed:
        return AttentionSpread(*np.zeros((3, 0)))
    rows, entropy, largest, logits = (np.array(a, float) for a in fold(_sums, (network, allowed), parts, _merged))
    return AttentionSpread(entropy / np.maximum(rows, 1), largest / np.maximum(rows, 1), logits)


def _merged(one, other):
    return *(a + b for a, b in zip(one[:3], other[:3], strict=True)), jnp.maximum(one[3], other[3])


@eqx.filter_jit
def _allowed(network, x):
    """For every block the keys that get weight in some example."""
    return tuple((law > 0).any(0) for law in _laws(network, x))


@eqx.filter_jit
def _sums(network, allowed, x):
    """For every block: rows with more than one key, the sums over them of entropies and largest weights, logits."""
    found = [_spread(law, keys) for law, keys in zip(_laws(network, x), allowed, strict=True)]
    return tuple(map(jnp.stack, zip(*found, strict=True)))


def _laws(network, x):
    """The weights of every block for every example, keys along the last axis."""
    inputs, inner = jax.tree.flatten(x)
    arrays, rest = eqx.partition(network, eqx.is_array)
    leaves, tree = jax.tree.flatten(arrays)

    def one(leaves, inputs):
        return eqx.combine(tree.unflatten(leaves), rest)(inner.unflatten(inputs))

    program = trace(one, leaves, [jax.ShapeDtypeStruct(a.shape[1:], a.dtype) for a in inputs])
    blocks = _blocks(program)
    kept = jax.vmap(lambda inputs: evaluate(program, leaves, inputs, {}, [slot for slot, _ in blocks])[1])(inputs)
    return [_law(kept[slot], [1 + axis for axis in axes]) for slot, axes in blocks]


def _law(weights, axes):
    """Shares of what is summed over, along one last axis."""
    last = tuple(range(weights.ndim - len(axes), weights.ndim))
    a = jnp.moveaxis(weights, axes, last)
    a = a.reshape(*a.shape[: last[0]], -1).astype(jnp.promote_types(a.dtype, jnp.float32))
    return a / jnp.maximum(a.sum(-1, keepdims=True), jnp.finfo(a.dtype).tiny)


def _blocks(program: Program) -> list[tuple[int, tuple[int, ...]]]:
    """The slots of weights, each with the axes along which a product sums them."""
    signals = depends(program, program.inputs)
    made = {slot: step for step in program.steps for slot in step.outs}
    found = []
    for step in program.steps:
        if step.name != "dot_general" or not set(step.ins[:2]) <= signals:
            continue
        axes = step.eqn.params["dimension_numbers"][0]
        # one of them at the most: a product of two laws has no keys
        weights = [i for i in (0, 1) if _exponential(made, step.ins[i])]
        if len(weights) == 1 and all(step.ins[weights[0]] != slot for slot, _ in found):
            found.append((step.ins[weights[0]], tuple(axes[weights[0]])))
    return found


def _exponential(made, slot) -> bool:
    """Whether a value is an exponential, but for what `_BETWEEN` does to it."""
    step = made.get(slot)
    if step is None:
        return False
    if step.name in ("exp", "exp2"):
        return True
    if step.name.startswith("custom_"):
        return _ends_in_softmax(step.eqn)
    return step.name in _BETWEEN and any(_exponential(made, s) for s in step.ins)


def _ends_in_softmax(eqn) -> bool:
    """Whether a function with a rule of its own divides exponentials, as JAX's softmax does."""
    body = eqn.params.get("call_jaxpr")
    return body is not None and {"exp", "div", "reduce_sum"} <= _names(body.jaxpr)


def _names(jaxpr) -> set[str]:
    """The operations of a program and of those that it calls."""
    inner = [p for eqn in jaxpr.eqns for p in eqn.params.values() if hasattr(p, "jaxpr")]
    return {eqn.primitive.name for eqn in jaxpr.eqns}.union(*(_names(p.jaxpr) for p in inner))


def _spread(law, keys):
    """Rows with more than one key, the sums over them of entropy shares and of largest weights, and the logits."""
    count = keys.sum(-1)
    several = jnp.broadcast_to(count > 1, law.shape[:-1])
    share = jax.scipy.special.entr(law).sum(-1) / jnp.log(jnp.maximum(count, 2))
    # a weight that has rounded to zero stands for a logit that is farther away than the type can say
    least = jnp.where(keys, jnp.maximum(law, jnp.finfo(law.dtype).tiny), 1).min(-1)
    apart = jnp.log(law.max(-1)) - jnp.log(least)
    return (
        several.sum().astype(law.dtype),
        jnp.where(several, share, 0).sum(),
        jnp.where(several, law.max(-1), 0).sum(),
        jnp.where(several, apart, 0).max(),
    )
