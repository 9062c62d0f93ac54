"""Loops of known length written out, so that every layer of a network that scans over its layers can be seen."""

import jax
import jax.numpy as jnp
from jax.extend.core import Literal

from corollary._convolutions import run_equation
from corollary.kernels._program import _bodies

PRODUCTS = ("dot_general", "conv_general_dilated")
# a program grows with what is written out; longer loops (over the time steps of a sequence, say) stay loops
LONGEST = 256


def unrolled(function):
    """The same function of arrays, with the loops that hold a matrix product or a convolution written out."""

    def run(*arguments):
        closed, shape = jax.make_jaxpr(function, return_shape=True)(*arguments)
        out = _evaluate(closed.jaxpr, closed.consts, jax.tree.leaves(arguments))
        return jax.tree.unflatten(jax.tree.structure(shape), out)

    return run


def _evaluate(jaxpr, consts, arguments):
    env = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *arguments], strict=True))

    def read(atom):
        return atom.val if isinstance(atom, Literal) else env[atom]

    for eqn in jaxpr.eqns:
        values = [read(v) for v in eqn.invars]
        name, params = eqn.primitive.name, eqn.params
        if name == "scan" and params["length"] <= LONGEST and _multiplies(params["jaxpr"].jaxpr):
            out = _scan(eqn, values)
        elif name in ("jit", "pjit") and _loops(params["jaxpr"].jaxpr):
            out = _evaluate(params["jaxpr"].jaxpr, params["jaxpr"].consts, values)
        else:
            out = run_equation(eqn, values)
        env |= dict(zip(eqn.outvars, out, strict=True))
    return [read(v) for v in jaxpr.outvars]


def _scan(eqn, values):
    params = eqn.params
    body, length = params["jaxpr"], params["length"]
    # constants, carry and slices follow each other; what is sliced or stacked has one axis more outside of the body
    sliced = sum(v.aval.ndim > inner.ndim for v, inner in zip(eqn.invars, body.in_avals, strict=True))
    carried = sum(v.aval.ndim == inner.ndim for v, inner in zip(eqn.outvars, body.out_avals, strict=True))
    k = len(values) - sliced - carried
    consts, carry, xs = values[:k], values[k : k + carried], values[k + carried :]
    made = {}
    for i in reversed(range(length)) if params["reverse"] else range(length):
        one = [jax.lax.index_in_dim(a, i, keepdims=False) for a in xs]
        out = _evaluate(body.jaxpr, body.consts, [*consts, *carry, *one])
        carry, made[i] = out[: len(carry)], out[len(carry) :]
    return [*carry, *(jnp.stack(column) for column in zip(*(made[i] for i in range(length)), strict=True))]


def _multiplies(jaxpr) -> bool:
    return any(e.primitive.name in PRODUCTS or any(map(_multiplies, _bodies(e.params))) for e in jaxpr.eqns)


def _loops(jaxpr) -> bool:
    return any(e.primitive.name == "scan" or any(map(_loops, _bodies(e.params))) for e in jaxpr.eqns)
