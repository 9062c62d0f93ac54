r"""What a program costs, counted and not timed: the scalar multiplications in its matrix products.

The count is read off the program that JAX records (`jax.make_jaxpr`), so it holds for any function, `jax.grad` of it
included, and is exact. Elementwise operations are left out, as the texts do: with layers of width $d$ they are a share
$1/d$ of the work.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from corollary._validate import one_of, whole
from corollary.catalog import implements


@implements("M06.02", "M24.03", "M24.05")
def multiplications(f: Callable, *arguments: Any) -> int:
    """Scalar multiplications in the matrix products that `f(*arguments)` makes.

    `arguments` may be arrays or `jax.ShapeDtypeStruct`s: nothing is computed. A loop of known length (`scan`) counts
    its body that often, a branch its dearest side. Loops of unknown length and convolutions cannot be counted.
    """
    if not callable(f):
        raise TypeError(f"f must be a function, got {type(f).__name__}.")
    return _count(jax.make_jaxpr(f)(*arguments).jaxpr)


def _count(jaxpr) -> int:
    total = 0
    for equation in jaxpr.eqns:
        name, parameters = equation.primitive.name, equation.params
        if name == "dot_general":
            (contracted, _), _ = parameters["dimension_numbers"]
            left, out = equation.invars[0].aval.shape, equation.outvars[0].aval.shape
            total += int(np.prod(out, dtype=int)) * int(np.prod([left[i] for i in contracted], dtype=int))
        elif name in ("while", "conv_general_dilated"):
            raise ValueError(f"The multiplications of a {name} cannot be counted.")
        elif name == "cond":
            total += max(_count(_open(branch)) for branch in parameters["branches"])
        else:
            inner = sum(_count(_open(value)) for value in parameters.values() if hasattr(_open(value), "eqns"))
            total += inner * (parameters["length"] if name == "scan" else 1)
    return total


def _open(jaxpr):
    # programs inside programs come with their constants (a closed jaxpr) or without
    return getattr(jaxpr, "jaxpr", jaxpr)


@implements("M06.02")
def composition_cost(depth: int, width: int, outputs: int, parameters: int, mode: str) -> int:
    r"""Multiplications for $D^LD^{L-1}\cdots D^1$ with $D^1$ of shape (K, d), $D^L$ of shape (M, K), the others (K, K).

    From the right (`"forward"`): $(L-2)K^2d+MKd$. From the left (`"reverse"`): $(L-2)K^2M+MKd$.
    """
    L, K = whole("depth", depth, 2), whole("width", width)
    M, d = whole("outputs", outputs), whole("parameters", parameters)
    one_of("mode", mode, ("forward", "reverse"))
    return (L - 2) * K**2 * (d if mode == "forward" else M) + M * K * d


@implements("M24.03", "M24.05")
def chain_cost(depth: int, width: int, inputs: int, outputs: int, mode: str) -> int:
    r"""Multiplications for the Jacobian of a `ChainModel` by its parameters, all products dense.

    Reverse: $d_O\{2(L-1)d^2+Ldd_x\}$. Forward: $Ldd_x+(L-1)(d^2+d^2d_\theta)+d_Odd_\theta$ with
    $d_\theta=Ldd_x+(L-1)d^2$; the last term, the loss applied to the tangents, is the one that texts leave out.
    """
    L, d = whole("depth", depth), whole("width", width)
    dx, dO = whole("inputs", inputs), whole("outputs", outputs)
    one_of("mode", mode, ("forward", "reverse"))
    if mode == "reverse":
        return dO * (2 * (L - 1) * d**2 + L * d * dx)
    theta = L * d * dx + (L - 1) * d**2
    return L * d * dx + (L - 1) * (d**2 + d**2 * theta) + dO * d * theta
