"""Large products with rounded factors, for training with noise that is far above the rounding.

bfloat16 has the range of single precision and eight bits of it. CPUs that multiply it have twice the products per
second, and the sums stay in single precision. XLA takes that routine where the first factor is summed over along its
last axis and no factor is a transpose: matrices are taken as they lie, and only a first factor that is summed over
along its first axis is transposed, which is small beside the product.
"""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental.layout import Layout, with_layout_constraint
from jax.extend.core import JaxprEqn

from corollary._engine.jaxpr import PART, body_of, evaluate, rewritten, run_equation

#: Products with a shorter side take less time than the rounding of their factors.
SHORT = 32


def rounded(function: Callable) -> Callable:
    """`function` with the factors of its large products in single precision rounded, on a CPU; elsewhere itself.

    After differentiation, as `cpu_ready`. Products that ask for a precision keep it; loops and functions with
    derivative rules of their own stay whole.
    """

    def again(*args, **kwargs):
        return rewritten(function, partial(_run, {}))(*args, **kwargs)

    return lambda *args, **kwargs: (again if jax.default_backend() == "cpu" else function)(*args, **kwargs)


def _run(lying: dict, eqn: JaxprEqn, values) -> list:
    """One operation; `lying` has for each transpose, by its identity, itself and the matrix that it was made of."""
    body, name = body_of(eqn), eqn.primitive.name
    if body is not None and eqn.params.get("name") != PART:
        return evaluate(*body, values, partial(_run, lying))
    if name == "dot_general" and _large(eqn):
        return [_product(lying, eqn, *values)]
    if name != "transpose" or eqn.params["permutation"] != (1, 0):
        return run_equation(eqn, values)
    if id(values[0]) in lying:
        return [lying[id(values[0])][1]]
    (turned,) = run_equation(eqn, values)
    lying[id(turned)] = turned, values[0]
    return [turned]


def _large(eqn) -> bool:
    """Whether this is one product of two matrices in single precision, with no short side."""
    over, each = eqn.params["dimension_numbers"]
    kinds = [v.aval for v in eqn.invars]
    if eqn.params["precision"] is not None or any(kind.dtype != jnp.float32 for kind in kinds):
        return False
    return not each[0] and len(over[0]) == 1 and all(k.ndim == 2 and min(k.shape) >= SHORT for k in kinds)


def _product(lying, eqn, a, b):
    ((i,), (j,)), _ = eqn.params["dimension_numbers"]
    if id(a) in lying:
        a, i = lying[id(a)][1], 1 - i
    if id(b) in lying:
        b, j = lying[id(b)][1], 1 - j
    a, b = a.astype(jnp.bfloat16), b.astype(jnp.bfloat16)
    if i == 0:  # in the order of its own axes, or XLA makes the transpose a part of the product again
        a = with_layout_constraint(a.T, Layout((0, 1)))
    return lax.dot_general(a, b, (((1,), (j,)), ((), ())), preferred_element_type=jnp.float32)
