r"""Lipschitz constants of every value of a network, from its traced program: each operation has a rule.

The program is run with other values: what does not depend on the input is computed as it is; what does is a `Signal`,
a bound on how fast it changes with the input, in Euclidean norms of whole arrays. A signal that only has its entries
moved about or repeated (reshaped, padded, cut, joined) remembers of what: a convolution with periodic padding is one
linear map, whose norm is taken, and not the product of the norms of two. What has no rule has no bound.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from functools import cache, partial
from itertools import count
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr

from corollary._engine.jaxpr import body_of, evaluate, run_equation
from corollary._engine.unroll import PRODUCTS, unrolled
from corollary.network.network import Network


class Fixed(NamedTuple):
    """A value that the input does not change, and the name of the parameter that it is made of."""

    value: Any
    name: str | None = None


class Signal(NamedTuple):
    """A value that depends on the input: `move(source)`, and how fast its source changes at most.

    Entry by entry it is a factor times the value with the number `root`. Of the result of a comparison `edge` is where
    in that value it changes.
    """

    bound: Any
    source: int
    shape: tuple[int, ...]
    dtype: Any
    move: Callable
    isometric: bool = True
    root: tuple[int, Any] = (-1, 1.0)
    edge: Any = None

    @property
    def slope(self):
        """A Lipschitz constant of the value itself."""
        if self.isometric:
            return self.bound
        one = jax.ShapeDtypeStruct(self.shape, self.dtype)
        out = jax.eval_shape(self.move, one)
        # each entry is one of the source or none: the norm is the root of how often one is repeated
        (times_used,) = jax.linear_transpose(self.move, one)(jnp.ones(out.shape, out.dtype))
        return scaled(self.bound, jnp.sqrt(jnp.max(times_used)))


class Product(NamedTuple):
    """A weight that multiplies a signal: the operation, the weight, and which operand it is."""

    name: str | None
    eqn: Any
    weight: Any
    operand: int
    signal: Signal

    def linear(self, v):
        """The map from the source of the signal."""
        return self.with_weight(self.weight)(v)

    def with_weight(self, weight) -> Callable:
        """The same map with another weight of the same shape."""
        place = 1 - self.operand

        def apply(v):
            operands = [weight, weight]
            operands[place] = self.signal.move(v)
            return run_equation(self.eqn, operands)[0]

        return apply


def matrices_of(product: Product):
    """The weight of a matrix product as (groups, rows, columns), the contracted axes in the columns."""
    weight, operand = product.weight, product.operand
    contracted, batch = (axes[operand] for axes in product.eqn.params["dimension_numbers"])
    free = [a for a in range(weight.ndim) if a not in contracted and a not in batch]
    groups, columns = (math.prod(weight.shape[a] for a in axes) for axes in (batch, contracted))
    return weight.transpose(*batch, *free, *contracted).reshape(groups, -1, columns)


def scaled(bound, factor):
    """Their product, and zero if either is: what does not pass does not matter, however fast it changes."""
    return jnp.where((bound == 0) | (factor == 0), 0.0, bound * factor)


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
            factor = _known(eqn, body, values)
            if factor is not None:
                return [self.signal(scaled(_slopes(values)[0], factor), eqn.outvars[0].aval)]
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
        return [_rooted(name, values, made[0])] if len(made) == 1 else made

    def _product(self, eqn, values):
        operand = 1 if isinstance(values[0], Signal) else 0
        signal, weight = values[1 - operand], values[operand]
        return scaled(signal.bound, self.norm(Product(weight.name, eqn, weight.value, operand, signal)))


def _same(v):
    return v


def inside_of(eqn) -> ClosedJaxpr | None:
    """The program inside a call, also of functions with derivative rules of their own: values are what counts."""
    body = body_of(eqn)
    if body is not None:
        return ClosedJaxpr(*body)
    if eqn.primitive.name in ("custom_jvp_call", "custom_vjp_call"):
        return eqn.params.get("call_jaxpr") or eqn.params.get("fun_jaxpr")
    return None


# --- entries that are moved about

#: Operations whose results hold entries of their operands, or constants.
MOVES = {
    "reshape", "squeeze", "expand_dims", "transpose", "rev", "slice", "dynamic_slice", "pad", "concatenate",
    "broadcast_in_dim", "gather", "select_n", "split", "copy", "copy_p", "name", "sharding_constraint",
    "convert_element_type",
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


# --- operations with a rule


def _slopes(values) -> list:
    return [v.slope for v in values if isinstance(v, Signal)]


def _repeated(eqn, values) -> list:
    """The slopes of the signals after they are repeated to the shape of the result."""
    size = eqn.outvars[0].aval.size
    pairs = zip(values, eqn.invars, strict=True)
    return [v.slope * math.sqrt(size / a.aval.size) for v, a in pairs if isinstance(v, Signal)]


def _sum(eqn, values):
    return sum(_repeated(eqn, values))


def _root(eqn, values):
    return jnp.sqrt(sum(jnp.square(s) for s in _repeated(eqn, values)))


def _times(eqn, values):
    fixed = [v.value for v in values if isinstance(v, Fixed)]
    return scaled(_repeated(eqn, values)[0], jnp.max(jnp.abs(fixed[0]))) if fixed else None


def _over(eqn, values):
    if isinstance(values[1], Signal):
        return None
    return scaled(_repeated(eqn, values)[0], 1 / jnp.min(jnp.abs(values[1].value)))


def _entrywise(factor):
    return lambda eqn, values: factor * values[0].slope


def _joined(eqn, values):
    return jnp.sqrt(sum(jnp.square(s) for s in _slopes(values)))


def _rooted(name, values, made: Signal) -> Signal:
    """What came out of a comparison with a number, or of a product with one, still knows what went into it."""
    if len(values) != 2 or sum(isinstance(v, Signal) for v in values) != 1:
        return made
    signal, other = (values[0], values[1]) if isinstance(values[0], Signal) else (values[1], values[0])
    number = _one_number(other.value)
    if number is None:
        return made
    root, factor = signal.root
    if name == "mul":
        return made._replace(root=(root, factor * number))
    if name in ("le", "lt", "ge", "gt") and factor != 0:
        return made._replace(root=(root, 1.0), edge=number / factor)
    return made


def _one_number(value) -> float | None:
    """The number that all entries of a fixed value are, where they can be looked at."""
    if isinstance(value, jax.core.Tracer):
        return None
    seen = np.asarray(value)
    return float(seen.flat[0]) if seen.size and (seen == seen.flat[0]).all() else None


def _chosen(eqn, values):
    """Either of two functions of the same entries, by a comparison of these: continuous if both agree at the edge."""
    test, *cases = values
    if not isinstance(test, Signal) or test.edge is None or len(cases) != 2:
        return None
    ends, slopes = [], []
    for case in cases:
        if isinstance(case, Signal):
            if case.root[0] != test.root[0]:
                return None
            ends.append(case.root[1] * test.edge)
            slopes.append(case.slope)
        else:
            ends.append(_one_number(case.value))
    return jnp.max(jnp.stack(slopes)) if ends[0] is not None and ends[0] == ends[1] and slopes else None


def _clamped(eqn, values):
    return values[1].slope if [isinstance(v, Signal) for v in values] == [False, True, False] else None


def _summed(eqn, values):
    return values[0].slope * math.sqrt(eqn.invars[0].aval.size / eqn.outvars[0].aval.size)


def _windows(eqn) -> tuple[int, int]:
    """How many entries a window has, and in how many windows an entry is at most."""
    params = eqn.params
    sizes, strides, dilations = (params[n] for n in ("window_dimensions", "window_strides", "window_dilation"))
    seen = [-(-w * math.gcd(s, d) // s) for w, s, d in zip(sizes, strides, dilations, strict=True)]
    return math.prod(sizes), math.prod(seen)


def _window_largest(eqn, values):
    return values[0].slope * math.sqrt(_windows(eqn)[1]) if len(values) == 1 else None


def _window_sum(eqn, values):
    return values[0].slope * math.sqrt(math.prod(_windows(eqn))) if len(values) == 1 else None


#: A Lipschitz constant of the result from those of the operands; None if there is none.
RULES: dict[str, Callable] = {
    "add": _sum,
    "add_any": _sum,
    "sub": _sum,
    "mul": _times,
    "div": _over,
    "max": _root,
    "min": _root,
    "concatenate": _joined,
    "clamp": _clamped,
    "select_n": _chosen,
    "reduce_sum": _summed,
    "reduce_max": _entrywise(1.0),
    "reduce_min": _entrywise(1.0),
    "reduce_window_max": _window_largest,
    "reduce_window_min": _window_largest,
    "reduce_window_sum": _window_sum,
    "logistic": _entrywise(0.25),
    "erf": _entrywise(2 / math.sqrt(math.pi)),
    "erfc": _entrywise(2 / math.sqrt(math.pi)),
    **dict.fromkeys(("neg", "abs", "tanh", "sin", "cos", "atan", "asinh", "sort"), _entrywise(1.0)),
}

#: Functions of JAX with a known constant, from their further arguments; slopes that are no closed form are rounded up.
KNOWN: dict[Callable, Callable] = {
    jax.nn.silu: lambda: 1.0999,
    jax.nn.mish: lambda: 1.0885,
    jax.nn.softplus: lambda: 1.0,
    jax.nn.hard_tanh: lambda: 1.0,
    jax.nn.leaky_relu: lambda slope=0.01: jnp.maximum(jnp.abs(slope), 1.0),
    jax.nn.elu: lambda alpha=1.0: jnp.maximum(jnp.abs(alpha), 1.0),
    jax.nn.selu: lambda: 1.0507009873554805 * 1.6732632423543772,
}


def _known(eqn, body: ClosedJaxpr, values):
    """The constant of a call that is one of `KNOWN`, by the operations in it."""
    aval, rest = eqn.invars[0].aval, values[1:]
    if not isinstance(values[0], Signal) or any(isinstance(v, Signal) for v in rest):
        return None
    if len(rest) > 1 or not jnp.issubdtype(aval.dtype, np.floating):
        return None
    text = str(body.jaxpr)
    for function, constant in KNOWN.items():
        if text == _text(function, aval.shape, aval.dtype, len(rest)):
            return constant(*(v.value for v in rest))
    return None


@cache
def _text(function, shape, dtype, further: int) -> str | None:
    """The program inside the call that a function of one array, and of so many numbers, is."""
    if len(inspect.signature(function).parameters) < 1 + further:
        return None
    traced = jax.make_jaxpr(lambda x: function(x, *[0.5] * further))(jax.ShapeDtypeStruct(shape, dtype))
    body = inside_of(traced.jaxpr.eqns[-1])
    return None if body is None else str(body.jaxpr)
