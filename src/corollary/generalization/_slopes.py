r"""Lipschitz constants of every value of a network, from its traced program: each operation has a rule.

The program is run with other values: what does not depend on the input is computed as it is; what does is a `Signal`,
a bound on how fast it changes with the input, in Euclidean norms of whole arrays. A signal that only has its entries
moved about or repeated (reshaped, padded, cut, joined) remembers of what: a convolution with periodic padding is one
linear map, whose norm is taken, and not the product of the norms of two. What has no rule has no bound.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from corollary._engine.jaxpr import evaluate, run_equation
from corollary._engine.unroll import PRODUCTS, unrolled
from corollary.generalization._signals import Fixed, Product, Signal, inside_of, scaled
from corollary.generalization._slope_rules import RULES, known_constant, rooted, slopes_in
from corollary.network.network import Network


class Slopes(NamedTuple):
    """What `slopes_of` found: a Lipschitz constant of the output, and the operations that have no rule."""

    bound: Any
    unknown: tuple[str, ...]


def slopes_of(network, example, norm: Callable[[Product], Any]) -> Slopes:
    """Run `network` on one example (arrays or shapes) with signals; `norm(product)` bounds the norm of each product."""
    arrays, rest = eqx.partition(network, eqx.is_array)
    paths, tree = jax.tree_util.tree_flatten_with_path(arrays)
    inputs, inner = jax.tree.flatten(example)

    def one(leaves, inputs):
        return eqx.combine(tree.unflatten(leaves), rest)(inner.unflatten(inputs))

    leaves = [leaf for _, leaf in paths]
    closed = jax.make_jaxpr(unrolled(one))(leaves, inputs)
    inside = 1 if isinstance(network, Network) else 0  # what everyone has in `params` need not be said
    names = [jax.tree_util.keystr(path[inside:], simple=True, separator=".") or "weight" for path, _ in paths]
    runner = _Runner(norm)
    values = [Fixed(leaf, name) for leaf, name in zip(leaves, names, strict=True)]
    signals = [runner.signal(1.0, jax.ShapeDtypeStruct(a.shape, a.dtype)) for a in inputs]
    outputs = evaluate(closed.jaxpr, closed.consts, [*values, *signals], runner)
    slopes = [v.slope for v in outputs if isinstance(v, Signal)]
    return Slopes(jnp.sqrt(sum(jnp.square(s) for s in slopes)) if slopes else jnp.zeros(()), tuple(runner.unknown))


class _Runner:
    """Runs the operations of a program on values that are fixed or signals."""

    def __init__(self, norm):
        self.norm, self.numbers, self.unknown = norm, count(), {}

    def signal(self, bound, aval) -> Signal:
        number = next(self.numbers)
        bound = jnp.asarray(bound, jnp.result_type(float))
        return Signal(bound, number, aval.shape, aval.dtype, _same, root=(number, 1.0))

    def __call__(self, eqn, values) -> list:
        values = [v if isinstance(v, Signal | Fixed) else Fixed(v) for v in values]
        if not any(isinstance(v, Signal) for v in values):
            named = max((v for v in values if v.name), key=lambda v: np.size(v.value), default=Fixed(None))
            return [Fixed(out, named.name) for out in run_equation(eqn, [v.value for v in values])]
        if (body := inside_of(eqn)) is not None:
            factor = known_constant(eqn, body, values)
            if factor is not None:
                return [self.signal(scaled(slopes_in(values)[0], factor), eqn.outvars[0].aval)]
            return evaluate(body.jaxpr, body.consts, values, self)
        name = eqn.primitive.name
        if name in MOVES and (moved := _moved(eqn, values)) is not None:
            return [signal._replace(root=(next(self.numbers), 1.0)) for signal in moved]
        if name in PRODUCTS and sum(isinstance(v, Signal) for v in values) == 1:
            return [self.signal(self._product(eqn, values), eqn.outvars[0].aval)]
        bound = RULES[name](eqn, values) if name in RULES else None
        if bound is None:
            bound = jnp.inf
            if any(jnp.issubdtype(v.aval.dtype, np.floating) for v in eqn.outvars):
                self.unknown.setdefault(name)
        made = [self.signal(bound, v.aval) for v in eqn.outvars]
        return [rooted(name, values, made[0])] if len(made) == 1 else made

    def _product(self, eqn, values):
        operand = 1 if isinstance(values[0], Signal) else 0
        signal, weight = values[1 - operand], values[operand]
        return scaled(signal.bound, self.norm(Product(weight.name, eqn, weight.value, operand, signal)))


def _same(v):
    return v


# --- entries that are moved about

#: Operations whose results hold entries of their operands, or constants.
MOVES = {
    "reshape", "squeeze", "expand_dims", "transpose", "rev", "slice", "dynamic_slice", "pad", "concatenate",
    "stack", "unstack", "broadcast_in_dim", "gather", "select_n", "split", "copy", "copy_p", "name",
    "sharding_constraint", "convert_element_type",
}  # fmt: skip
_TURNS = {"reshape", "squeeze", "expand_dims", "transpose", "rev", "copy", "copy_p", "name", "sharding_constraint"}


def _moved(eqn, values) -> list | None:
    """Signals of the same source; None if the operands have several, or if the signal says which entries to take."""
    signals = [v for v in values if isinstance(v, Signal)]
    floats = [jnp.issubdtype(v.aval.dtype, np.floating) for v in [*eqn.invars, *eqn.outvars]]
    if len({v.source for v in signals}) > 1 or not all(floats[len(values) :]):
        return None
    if any(isinstance(v, Signal) and not real for v, real in zip(values, floats, strict=False)):
        return None
    first, turns = signals[0], eqn.primitive.name in _TURNS
    same_size = eqn.outvars[0].aval.size == eqn.invars[0].aval.size
    turns |= eqn.primitive.name in ("broadcast_in_dim", "convert_element_type") and same_size

    def linear(number, v):
        # constants that join it do not change
        operands = [
            x.move(v) if isinstance(x, Signal) else jnp.zeros_like(x.value) if real else x.value
            for x, real in zip(values, floats, strict=False)
        ]
        return run_equation(eqn, operands)[number]

    isometric = first.isometric and turns
    return [first._replace(move=partial(linear, i), isometric=isometric) for i in range(len(eqn.outvars))]
