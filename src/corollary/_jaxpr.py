"""Traced programs, run again operation by operation, so that some of their operations can be replaced."""

from typing import NamedTuple

import jax
from jax.extend.core import ClosedJaxpr, JaxprEqn, Literal

#: Calls whose body is exactly what they compute, under the name of the parameter that holds the body.
BODIES = {"jit": "jaxpr", "pjit": "jaxpr", "remat2": "jaxpr", "checkpoint": "jaxpr", "closed_call": "call_jaxpr"}


def run_equation(eqn: JaxprEqn, values) -> list:
    """One operation of a traced program on new values, in the context (precision, 64 bits) that it was traced in."""
    with eqn.ctx.manager:
        out = eqn.primitive.bind(*values, **eqn.primitive.get_bind_params(eqn.params))
    return out if eqn.primitive.multiple_results else [out]


def body_of(eqn: JaxprEqn):
    """The program inside of a call and its constants; None for any other operation."""
    body = eqn.params.get(BODIES.get(eqn.primitive.name))
    if body is None:
        return None
    return (body.jaxpr, body.consts) if isinstance(body, ClosedJaxpr) else (body, ())


class Program(NamedTuple):
    """What `evaluate` needs to know of a traced program: some of its operations may be left out."""

    constvars: list
    invars: list
    eqns: list
    outvars: list


def evaluate(jaxpr, consts, args, run) -> list:
    """The outputs of a traced program, each operation by `run(eqn, values)`."""
    env = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *args], strict=True))

    def read(atom):
        return atom.val if isinstance(atom, Literal) else env[atom]

    for eqn in jaxpr.eqns:
        env |= dict(zip(eqn.outvars, run(eqn, [read(v) for v in eqn.invars]), strict=True))
    return [read(v) for v in jaxpr.outvars]


def rewritten(function, run):
    """`function` of arrays (pytrees of them), traced and then run with `run(eqn, values)` for each operation."""

    def again(*args):
        closed, shape = jax.make_jaxpr(function, return_shape=True)(*args)
        out = evaluate(closed.jaxpr, closed.consts, jax.tree.leaves(args), run)
        return jax.tree.unflatten(jax.tree.structure(shape), out)

    return again


class Loop(NamedTuple):
    """The operands of a `scan`: what stays the same, what is carried, and what is taken slice by slice."""

    consts: list
    carry: list
    xs: list


def loop_of(eqn: JaxprEqn, values) -> Loop:
    """`values` of the operands of a `scan`, sorted. They follow each other; a slice has one axis less in the body."""
    body = eqn.params["jaxpr"]
    sliced = sum(v.aval.ndim > inner.ndim for v, inner in zip(eqn.invars, body.in_avals, strict=True))
    carried = sum(v.aval.ndim == inner.ndim for v, inner in zip(eqn.outvars, body.out_avals, strict=True))
    k = len(values) - sliced - carried
    return Loop(values[:k], values[k : k + carried], values[k + carried :])
