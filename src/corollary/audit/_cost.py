"""What one example costs: the operations of a forward pass and the numbers that it makes, read off the traced program.

Sections take as many examples, products and directions as these allow. Loops count as often as they run.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr


class Cost(NamedTuple):
    """Floating-point operations of a forward pass of one example, the numbers that it makes on its way, and its steps.

    A step of the program is one operation on arrays; loops count once, since they are compiled once.
    """

    operations: float
    numbers: float
    steps: int


def cost(network, x) -> Cost:
    """The cost of `network` for one of the examples `x`."""
    arrays, rest = eqx.partition(network, eqx.is_array)
    one = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape[1:], a.dtype), x)
    program = jax.make_jaxpr(lambda arrays, one: eqx.combine(arrays, rest)(one))(arrays, one)
    return _of_program(program.jaxpr)


def _of_program(jaxpr) -> Cost:
    parts = [_of_step(eqn) for eqn in jaxpr.eqns]
    return Cost(*(sum(part[i] for part in parts) for i in range(len(Cost._fields))))


def _of_step(eqn) -> Cost:
    made = float(sum(getattr(v.aval, "size", 0) for v in eqn.outvars))
    name, shapes = eqn.primitive.name, [getattr(v.aval, "shape", ()) for v in eqn.invars]
    if name == "dot_general":
        summed = [shapes[0][i] for i in eqn.params["dimension_numbers"][0][0]]
        return Cost(2 * made * np.prod(summed, dtype=float), made, 1)
    if name == "conv_general_dilated":
        # every output is a sum over the kernel's positions and its input channels
        outputs = shapes[1][eqn.params["dimension_numbers"].rhs_spec[0]]
        return Cost(2 * made * np.prod(shapes[1], dtype=float) / max(outputs, 1), made, 1)
    inner = [_of_program(body) for value in eqn.params.values() for body in _bodies(value)]
    if not inner:
        return Cost(made, made, 1)
    steps = sum(i.steps for i in inner)
    if name == "cond":
        return Cost(max(i.operations for i in inner), max(i.numbers for i in inner) + made, steps)
    times = eqn.params.get("length", 1) if name == "scan" else 1
    return Cost(times * sum(i.operations for i in inner), times * sum(i.numbers for i in inner) + made, steps)


def _bodies(value):
    values = value if isinstance(value, tuple | list) else (value,)
    for one in values:
        if isinstance(one, ClosedJaxpr):
            yield one.jaxpr
        elif isinstance(one, Jaxpr):
            yield one
