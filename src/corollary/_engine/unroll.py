"""Loops of known length written out, so that every layer of a network that scans over its layers can be seen."""

import jax
import jax.numpy as jnp

from corollary._engine.jaxpr import evaluate, loop_of, rewritten, run_equation
from corollary._engine.program import LONGEST, _bodies

PRODUCTS = ("dot_general", "conv_general_dilated")


def unrolled(function):
    """The same function of arrays, with the loops that hold a matrix product or a convolution written out."""
    return rewritten(function, _run)


def _run(eqn, values):
    name, params = eqn.primitive.name, eqn.params
    if name == "scan" and params["length"] <= LONGEST and _multiplies(params["jaxpr"].jaxpr):
        return _scan(eqn, values)
    if name in ("jit", "pjit") and _loops(params["jaxpr"].jaxpr):
        return evaluate(params["jaxpr"].jaxpr, params["jaxpr"].consts, values, _run)
    return run_equation(eqn, values)


def _scan(eqn, values):
    params = eqn.params
    body, length = params["jaxpr"], params["length"]
    consts, carry, xs = loop_of(eqn, values)
    made = {}
    for i in reversed(range(length)) if params["reverse"] else range(length):
        one = [jax.lax.index_in_dim(a, i, keepdims=False) for a in xs]
        out = evaluate(body.jaxpr, body.consts, [*consts, *carry, *one], _run)
        carry, made[i] = out[: len(carry)], out[len(carry) :]
    return [*carry, *(jnp.stack(column) for column in zip(*(made[i] for i in range(length)), strict=True))]


def _multiplies(jaxpr) -> bool:
    return any(e.primitive.name in PRODUCTS or any(map(_multiplies, _bodies(e.params))) for e in jaxpr.eqns)


def _loops(jaxpr) -> bool:
    return any(e.primitive.name == "scan" or any(map(_loops, _bodies(e.params))) for e in jaxpr.eqns)
