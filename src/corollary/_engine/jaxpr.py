"""Traced programs, run again operation by operation, so that some of their operations can be replaced."""

from typing import NamedTuple

import equinox as eqx
import jax
from jax.extend.core import ClosedJaxpr, JaxprEqn, Literal

#: Calls whose body is exactly what they compute, under the name of the parameter that holds the body.
BODIES = {"jit": "jaxpr", "pjit": "jaxpr", "remat2": "jaxpr", "checkpoint": "jaxpr", "closed_call": "call_jaxpr"}

#: The name of calls that stay calls where programs are rewritten: parts of a program that is too long for one.
PART = "part_of_program"


def run_equation(eqn: JaxprEqn, values) -> list:
    """One operation of a traced program on new values, in the context (precision, 64 bits) that it was traced in."""
    with eqn.ctx.manager:
        out = eqn.primitive.bind(*values, **eqn.primitive.get_bind_params(eqn.params))
    return out if eqn.primitive.multiple_results else [out]


def body_of(eqn: JaxprEqn):
    """The program inside a call and its constants; None for any other operation."""
    body = eqn.params.get(BODIES.get(eqn.primitive.name))
    if body is None:
        return None
    return (body.jaxpr, body.consts) if isinstance(body, ClosedJaxpr) else (body, ())


def evaluate(jaxpr, consts, args, run, *, without=(), outvars=None) -> list:
    """The outputs of a traced program, each operation by `run(eqn, values)`.

    The operations `without` are left out, and `outvars` may be other values of the program than its own outputs.
    """
    env = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *args], strict=True))
    left_out = set(map(id, without))

    def read(atom):
        return atom.val if isinstance(atom, Literal) else env[atom]

    for eqn in jaxpr.eqns:
        if id(eqn) not in left_out:
            env |= dict(zip(eqn.outvars, run(eqn, [read(v) for v in eqn.invars]), strict=True))
    return [read(v) for v in (jaxpr.outvars if outvars is None else outvars)]


def rewritten(function, run):
    """`function` of pytrees, traced and then run with `run(eqn, values)` for each operation on arrays."""

    def again(*args, **kwargs):
        closed, shape, rest = eqx.filter_make_jaxpr(function)(*args, **kwargs)
        arrays = jax.tree.leaves(eqx.filter((args, kwargs), eqx.is_array))
        out = evaluate(closed.jaxpr, closed.consts, arrays, run)
        return eqx.combine(jax.tree.unflatten(jax.tree.structure(shape), out), rest)

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
