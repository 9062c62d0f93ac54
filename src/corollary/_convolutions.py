"""Convolutions in the one order of axes that XLA runs fast inside of loops.

On a processor XLA brings convolutions into its own order of axes (examples, space, channels) only outside of loops. In
a loop those that are not in it, such as every derivative by a kernel, do without its fast routine, and take a hundred
times as long. A function that is to stand in a loop is therefore rewritten first; elsewhere it makes no difference.
"""

from collections.abc import Callable

import jax
from jax import lax
from jax.extend.core import ClosedJaxpr, JaxprEqn, Literal

#: Calls whose body is exactly what they compute, under the name of the parameter that holds the body.
BODIES = {"jit": "jaxpr", "pjit": "jaxpr", "remat2": "jaxpr", "checkpoint": "jaxpr", "closed_call": "call_jaxpr"}


def loop_ready(function: Callable) -> Callable:
    """`function`, the same numbers, with its convolutions in XLA's own order of axes.

    For functions of arrays (pytrees of them) that are to run inside of `scan`, `while_loop` or `map`. Functions with
    derivative rules of their own stay whole, and so do loops inside of it: make their bodies ready where they are made.
    """
    if not callable(function):
        raise TypeError(f"function must be a function, got {type(function).__name__}.")

    def rewritten(*args):
        if jax.default_backend() != "cpu":
            return function(*args)  # other devices choose the order themselves, in loops too
        closed, shape = jax.make_jaxpr(function, return_shape=True)(*args)
        out = _evaluate(closed.jaxpr, closed.consts, jax.tree.leaves(args))
        return jax.tree.unflatten(jax.tree.structure(shape), out)

    return rewritten


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


def _evaluate(jaxpr, consts, args):
    env = dict(zip(jaxpr.constvars, consts, strict=True)) | dict(zip(jaxpr.invars, args, strict=True))

    def read(atom):
        return atom.val if isinstance(atom, Literal) else env[atom]

    for eqn in jaxpr.eqns:
        values, body = [read(v) for v in eqn.invars], body_of(eqn)
        if eqn.primitive.name == "conv_general_dilated":
            out = [_convolve(eqn, *values)]
        else:
            out = run_equation(eqn, values) if body is None else _evaluate(*body, values)
        env |= dict(zip(eqn.outvars, out, strict=True))
    return [read(v) for v in jaxpr.outvars]


def _convolve(eqn, x, kernel):
    # a specification lists the axes of examples (of a kernel: outputs), of channels, and of space
    lhs, rhs, out = eqn.params["dimension_numbers"]
    last = x.ndim - 1
    own = (0, last, *range(1, last))
    x = x.transpose([lhs[0], *lhs[2:], lhs[1]])
    kernel = kernel.transpose([*rhs[2:], rhs[1], rhs[0]])
    numbers = lax.ConvDimensionNumbers(own, (last, last - 1, *range(last - 1)), own)
    (found,) = run_equation(eqn.replace(params=eqn.params | {"dimension_numbers": numbers}), [x, kernel])
    back = dict(zip(out, own, strict=True))
    return found.transpose([back[axis] for axis in range(x.ndim)])
