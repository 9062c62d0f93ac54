r"""What happens in every layer of any network: signals, gradients, dead and saturated units, rank.

The layers are found in the traced program, so that the network may be written in any way. See `_layers` for what counts
as a layer. `signal_propagation` measures networks that are given as a sequence of functions, at the places between
them.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import PyTree

from corollary._engine.program import evaluate, only_forward, trace
from corollary._engine.unroll import unrolled
from corollary._show import shown
from corollary._types import LossLike, NetworkLike
from corollary.landscape._layers import find_layers
from corollary.network.apart import require_apart, require_mean
from corollary.network.batches import arrange, first_examples, fold, pair
from corollary.network.loss import of_examples
from corollary.network.network import Network
from corollary.network.parts import require_network, split

# a slope below this counts as flat
FLAT = 1e-2
# a unit is saturated if it is flat on this share of what it sees
ALMOST_ALL = 0.95
# the covariance of more units than this is not formed
MOST_UNITS = 4096


class LayerSignal(eqx.Module):
    r"""One layer on the data: $z$ is its pre-activation, $\phi$ the nonlinearity after it, $\Lambda$ the mean loss.

    A unit is one output feature: of a convolution a channel, which is seen at every position of every example.

    - `name`: where its weight $W$ is in the network, such as `layers.0.weight`; `[3]` behind it is a part of a leaf.
      Weights without a nonlinearity of their own that meet the same signal, such as gates or the projections of an
      attention, are one layer with their units side by side, and so are uses of one weight that do not depend on each
      other, with their positions one after the other; their $z$ is the product before biases.
    - `shape`: of $z$ for one example, axes of length one left out; `units`: how many units it has.
    - `forward`: the mean of $z^2$ over examples, positions and units.
    - `backward`: the mean over the examples of $\|\partial\ell/\partial z\|^2$, $\ell$ the example's own loss, as in
      `Propagation`. Divide by the size of `shape` for the mean square of an entry.
    - `gradient`: $\|\partial\Lambda/\partial W\|$; of a weight that several layers share, over all of them.
    - `dead`: the share of units whose $\phi(z)$ is exactly zero everywhere. None if no nonlinearity follows directly.
    - `saturated`: the share of units that are not dead, but flat: $|\phi'(z)|<0.01$ on at least 95% of what they see.
      None if no nonlinearity follows directly.
    - `without_gradient`: the share of units with $\partial\ell/\partial z$ exactly zero everywhere: no step changes
      them.
    - `rank`: the participation ratio $(\operatorname{tr}C)^2/\operatorname{tr}C^2$ of the covariance $C$ of the units
      over examples and positions: in how many directions the outputs vary. From 1 to `units`; 0 if they do not vary at
      all (beyond rounding). None above 4096 units.
    - `common`: $\|\mathbb Ez\|^2/\mathbb E\|z\|^2$ over examples and positions, the share of the signal that is the
      same for all of them; 1 if the layer no longer tells them apart.
    """

    name: str = eqx.field(static=True)
    shape: tuple[int, ...] = eqx.field(static=True)
    units: int = eqx.field(static=True)
    forward: jax.Array
    backward: jax.Array
    gradient: jax.Array
    dead: jax.Array | None
    saturated: jax.Array | None
    without_gradient: jax.Array
    rank: jax.Array | None
    common: jax.Array

    __repr__ = shown


class _Seen(NamedTuple):
    """What some of the data added up to, for one layer."""

    examples: jax.Array
    rows: jax.Array
    square: jax.Array
    backward: jax.Array
    alive: jax.Array
    flat: jax.Array
    reached: jax.Array
    mean: jax.Array
    scatter: jax.Array | None


class _Total(eqx.Module):
    """What some of the data added up to: a `_Seen` for each layer, and the sum of the gradients by the weights."""

    seen: list[_Seen]
    by_source: dict
    layers: tuple = eqx.field(static=True)  # (name, shape, sources, whether a nonlinearity follows)


def layer_signals(
    network: NetworkLike, loss: LossLike, data: PyTree, *, batch_size: int = 128, trainable: Any = None
) -> tuple[LayerSignal, ...]:
    r"""A `LayerSignal` for every layer of `network`, in the order in which they are applied, on `data = (x, y)`.

    `loss` is a name or a function of one output and one target. The data are passed once, `batch_size` examples at a
    time by one compiled program, which bounds the memory: signals and gradients of one batch, and a matrix of units by
    units for each layer. Exact up to rounding for the data given.

    Weights in loops of known length are found by writing the loops out (up to 256 rounds). Weights that are only looked
    up, as in an embedding, are no layers.

    >>> [layer.units for layer in layer_signals(network, "squared", data)]
    [4, 1]
    """
    require_network(network)
    loss, parts, data = of_examples(loss, who="layer_signals"), split(network, trainable), pair("data", data)
    require_apart(parts.join(), data[0])
    batches = arrange(data, batch_size)
    require_mean(loss, parts.join(), first_examples(batches))
    return _summaries(fold(partial(_look, loss.function), (parts.params, parts.fixed), batches, _merge))


def _program_of(params, fixed, inputs, inner):
    """The program of one example, and its layers."""
    paths, tree = jax.tree_util.tree_flatten_with_path(params)

    def one(leaves, inputs):
        return eqx.combine(tree.unflatten(leaves), fixed)(inner.unflatten(inputs))

    shapes = [jax.ShapeDtypeStruct(a.shape[1:], a.dtype) for a in inputs]
    program = trace(unrolled(one), [leaf for _, leaf in paths], shapes)
    if only_forward(program, program.leaves):
        raise ValueError(
            "network must have a gradient, but it contains a while loop, which has none: use jax.lax.scan."
        )
    inside = 1 if isinstance(params, Network) else 0  # what everyone has in `params` need not be said
    names = [jax.tree_util.keystr(path[inside:], simple=True, separator=".") for path, _ in paths]
    layers = find_layers(program, names)
    if not layers:
        raise ValueError("network must multiply its input by one of its weights, but no such layer was found.")
    return program, layers


@eqx.filter_jit
def _look(loss, params, fixed, batch) -> _Total:
    """What one batch adds up to."""
    inputs, inner = jax.tree.flatten(batch[0])
    leaves, n = jax.tree.leaves(params), inputs[0].shape[0]
    program, layers = _program_of(params, fixed, inputs, inner)
    needed = sorted(set().union(*(layer.needed for layer in layers)))

    def total(sources, shifts):
        def example(inputs, label, shifts):
            out, kept = evaluate(program, leaves, inputs, sources | shifts, needed)
            return loss(out, label), kept

        losses, kept = jax.vmap(example)(inputs, batch[1], shifts)
        return jnp.sum(losses), kept

    def zeros(slot, *axes):
        return jnp.zeros((*axes, *program.shape(slot)), program.avals[slot].dtype)

    # a shift of zero where the pre-activation appears: the gradient by it is that by the pre-activation
    shifts = {slot: zeros(slot, n) for layer in layers for slot in layer.outputs}
    sources = {slot: zeros(slot) for layer in layers for slot in layer.sources}
    (by_source, by_signal), kept = jax.grad(total, argnums=(0, 1), has_aux=True)(sources, shifts)
    seen = []
    for layer in layers:
        values = slopes = None
        if layer.activation is not None:
            values, slopes = jax.vmap(layer.slopes)({s: kept[s] for s in layer.needed})
        seen.append(_of_layer(layer, n, _table(layer, kept), _table(layer, by_signal), values, slopes))
    static = [(a.name, _shape(program, a), a.sources, a.activation is not None) for a in layers]
    return _Total(seen, by_source, tuple(static))


def _shape(program, layer) -> tuple[int, ...]:
    """Of the pre-activation of one example, axes of length one left out."""
    shape = program.shape(layer.outputs[0])
    if len(layer.outputs) > 1:
        units = [int(np.prod([program.shape(slot)[a] for a in axes])) for slot, axes in layer.blocks[0]]
        shape = len(layer.blocks) * program.size(layer.outputs[0]) // units[0], sum(units)
    return tuple(d for d in shape if d > 1)


def _rows(a, units):
    """Examples and positions in rows, units in columns."""
    last = range(a.ndim - len(units), a.ndim)
    a = jnp.moveaxis(a, [1 + u for u in units], last).astype(jnp.result_type(a.dtype, jnp.float32))
    return a.reshape(-1, int(np.prod([a.shape[i] for i in last])))


def _table(layer, values):
    """What stands in the blocks of a layer, examples and positions in rows, units in columns."""
    rows = [jnp.concatenate([_rows(values[slot], units) for slot, units in row], 1) for row in layer.blocks]
    return jnp.concatenate(rows)


def _of_layer(layer, n, z, delta, values, slopes) -> _Seen:
    dtype, units = z.dtype, layer.blocks[0][0][1]
    mean = z.mean(0)
    centred = z - mean
    scatter = jnp.matmul(centred.T, centred, precision=lax.Precision.HIGHEST) if z.shape[1] <= MOST_UNITS else None
    none = jnp.zeros(z.shape[1], dtype)
    return _Seen(
        jnp.full((), n, dtype),
        jnp.full((), z.shape[0], dtype),
        jnp.sum(z**2),
        jnp.sum(delta**2),
        none if values is None else jnp.any(_rows(values, units) != 0, 0).astype(dtype),
        none if slopes is None else jnp.sum(_rows(slopes, units) < FLAT, 0).astype(dtype),
        jnp.any(delta != 0, 0).astype(dtype),
        mean,
        scatter,
    )


@eqx.filter_jit
def _merge(first: _Total, second: _Total) -> _Total:
    """Both parts of the data together. Means and scatter are merged without a difference of large numbers."""

    def layer(a: _Seen, b: _Seen) -> _Seen:
        rows = a.rows + b.rows
        gap = b.mean - a.mean
        scatter = None if a.scatter is None else a.scatter + b.scatter + a.rows * b.rows / rows * jnp.outer(gap, gap)
        added = jax.tree.map(jnp.add, a, b)
        return added._replace(mean=a.mean + b.rows / rows * gap, scatter=scatter)

    seen = [layer(a, b) for a, b in zip(first.seen, second.seen, strict=True)]
    return _Total(seen, jax.tree.map(jnp.add, first.by_source, second.by_source), first.layers)


@eqx.filter_jit
def _summaries(total: _Total) -> tuple[LayerSignal, ...]:
    return tuple(
        _summary(name, shape, activated, seen, [total.by_source[source] for source in sources])
        for (name, shape, sources, activated), seen in zip(total.layers, total.seen, strict=True)
    )


def _summary(name, shape, activated, seen: _Seen, by_source) -> LayerSignal:
    units, second_moment = seen.mean.shape[0], seen.square / seen.rows
    dead, saturated = seen.alive == 0, (seen.flat >= ALMOST_ALL * seen.rows) & (seen.alive > 0)
    rank = None
    if seen.scatter is not None:
        trace, square = jnp.trace(seen.scatter), jnp.sum(seen.scatter**2)
        # a signal that does not vary has a scatter of rounding errors of its mean
        varies = trace > (64 * jnp.finfo(trace.dtype).eps) ** 2 * seen.square
        rank = jnp.where(varies, trace**2 / jnp.where(varies, square, 1), 0)
    size = jnp.where(second_moment > 0, second_moment, 1)
    return LayerSignal(
        name=name,
        shape=shape,
        units=units,
        forward=second_moment / units,
        backward=seen.backward / seen.examples,
        gradient=jnp.linalg.norm(jnp.concatenate([a.reshape(-1) for a in by_source])) / seen.examples,
        dead=dead.mean(dtype=size.dtype) if activated else None,
        saturated=saturated.mean(dtype=size.dtype) if activated else None,
        without_gradient=jnp.mean(seen.reached == 0, dtype=size.dtype),
        rank=rank,
        common=jnp.where(second_moment > 0, jnp.sum(seen.mean**2) / size, 1),
    )
