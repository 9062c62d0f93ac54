"""How fast the result of an operation changes at most, from how fast its operands do.

Lipschitz constants in Euclidean norms of whole arrays. An operation without a rule has no bound.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Literal

from corollary.generalization._signals import Fixed, Signal, inside_of, scaled


def slopes_in(values) -> list:
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
    return jnp.sqrt(sum(jnp.square(s) for s in slopes_in(values)))


def rooted(name, values, made: Signal) -> Signal:
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
    "stack": _joined,
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


def known_constant(eqn, body: ClosedJaxpr, values):
    """The constant of a call that is one of `KNOWN`, by the operations in it."""
    aval, rest = eqn.invars[0].aval, values[1:]
    if not isinstance(values[0], Signal) or any(isinstance(v, Signal) for v in rest):
        return None
    if len(rest) > 1 or not jnp.issubdtype(aval.dtype, np.floating):
        return None
    form = _form(body)
    for function, constant in KNOWN.items():
        if form == _form_of(function, aval.shape, aval.dtype, len(rest)):
            return constant(*(v.value for v in rest))
    return None


@cache
def _form_of(function, shape, dtype, further: int) -> tuple | None:
    """The form of the program inside the call that a function of one array, and of so many numbers, is."""
    if len(inspect.signature(function).parameters) < 1 + further:
        return None
    traced = jax.make_jaxpr(lambda x: function(x, *[0.5] * further))(jax.ShapeDtypeStruct(shape, dtype))
    body = inside_of(traced.jaxpr.eqns[-1])
    return None if body is None else _form(body)


def _form(closed: ClosedJaxpr) -> tuple:
    """The operations of a program and what they take, without names and without the calls that they come in."""
    steps: list[tuple] = []

    def walk(jaxpr, values):
        env = dict(zip(jaxpr.invars, values, strict=True))

        def read(atom):
            return ("number", str(atom.val)) if isinstance(atom, Literal) else env.get(atom, "constant")

        for eqn in jaxpr.eqns:
            operands, inner = [read(v) for v in eqn.invars], inside_of(eqn)
            if inner is None:
                options = [(k, str(v)) for k, v in eqn.params.items() if isinstance(v, int | tuple | np.dtype)]
                steps.append((eqn.primitive.name, *operands, *sorted(options)))
                results = [(len(steps), i) for i in range(len(eqn.outvars))]
            else:
                results = walk(inner.jaxpr, operands)
            env |= dict(zip(eqn.outvars, results, strict=True))
        return [read(v) for v in jaxpr.outvars]

    results = walk(closed.jaxpr, [("input", i) for i in range(len(closed.jaxpr.invars))])
    return (*steps, *results)
