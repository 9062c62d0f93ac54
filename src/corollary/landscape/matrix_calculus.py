r"""Derivatives of scalar functions of matrices, as a table: (6.1)-(6.7), (6.11), (6.21)-(6.23).

All of the functions are polynomials of second degree at most in the variable, so that a central difference of any step
has no truncation error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float

from corollary._types import Scalar
from corollary._validate import positive, real
from corollary.catalog import implements


@implements("B06.03")
class MatrixDerivative(NamedTuple):
    """A scalar `function` of named arrays and its `derivative` with respect to the `variable`, of the same shape.

    `shapes` names the axes of each argument, as in `"m n"`; equal letters are equal sizes.
    """

    name: str
    variable: str
    shapes: dict[str, str]
    function: Callable
    derivative: Callable

    def __call__(self, **arguments: Any) -> Float[Array, "..."]:
        """The derivative at these arguments."""
        return self.derivative(**self._checked(arguments))

    def value(self, **arguments: Any) -> Float[Array, ""]:
        """The function at these arguments."""
        return self.function(**self._checked(arguments))

    def _checked(self, arguments):
        if set(arguments) != set(self.shapes):
            raise TypeError(f"{self.name} takes the arguments {', '.join(self.shapes)}, got {', '.join(arguments)}.")
        dims = {}
        return {name: real(name, arguments[name], shape, dims) for name, shape in self.shapes.items()}


def _row(name, variable, shapes, function, derivative):
    return MatrixDerivative(name, variable, shapes, function, derivative)


def _square(v):
    return jnp.sum(v**2)


_SQUARE = {"A": "n n", "x": "n"}
_SANDWICH = {"A": "k m", "B": "m n"}

MATRIX_DERIVATIVES: tuple[MatrixDerivative, ...] = (
    _row("squared norm of X", "X", {"X": "m n"}, lambda X: _square(X), lambda X: 2 * X),
    _row("tr AX", "X", {"A": "n m", "X": "m n"}, lambda A, X: jnp.trace(A @ X), lambda A, X: A.T),
    _row("tr AX'", "X", {"A": "m n", "X": "m n"}, lambda A, X: jnp.trace(A @ X.T), lambda A, X: A),
    _row("x'Ax by x", "x", _SQUARE, lambda A, x: x @ A @ x, lambda A, x: (A + A.T) @ x),
    _row("x'Ax by A", "A", _SQUARE, lambda A, x: x @ A @ x, lambda A, x: jnp.outer(x, x)),
    _row("|Ax|^2 by x", "x", {"A": "m n", "x": "n"}, lambda A, x: _square(A @ x), lambda A, x: 2 * A.T @ A @ x),
    _row("|Ax|^2 by A", "A", {"A": "m n", "x": "n"}, lambda A, x: _square(A @ x), lambda A, x: 2 * jnp.outer(A @ x, x)),
    _row(
        "|y-Ax|^2 by A",
        "A",
        {"A": "m n", "x": "n", "y": "m"},
        lambda A, x, y: _square(y - A @ x),
        lambda A, x, y: -2 * jnp.outer(y - A @ x, x),
    ),
    _row("a'Xb", "X", {"a": "m", "X": "m n", "b": "n"}, lambda a, X, b: a @ X @ b, lambda a, X, b: jnp.outer(a, b)),
    _row(
        "a'X'DXb",
        "X",
        {"a": "n", "X": "m n", "D": "m m", "b": "n"},
        lambda a, X, D, b: a @ X.T @ D @ X @ b,
        lambda a, X, D, b: D.T @ X @ jnp.outer(a, b) + D @ X @ jnp.outer(b, a),
    ),
    _row("tr ABC", "B", _SANDWICH | {"C": "n k"}, lambda A, B, C: jnp.trace(A @ B @ C), lambda A, B, C: A.T @ C.T),
    _row("tr CB'A'", "B", _SANDWICH | {"C": "k n"}, lambda A, B, C: jnp.trace(C @ B.T @ A.T), lambda A, B, C: A.T @ C),
    _row(
        "tr ABCB'A'",
        "B",
        _SANDWICH | {"C": "n n"},
        lambda A, B, C: jnp.trace(A @ B @ C @ B.T @ A.T),
        lambda A, B, C: A.T @ A @ B @ (C.T + C),
    ),
)


@implements("B06.03")
def matrix_difference(f: Callable, x: Float[ArrayLike, "..."], step: Scalar = 1.0) -> Float[Array, "..."]:
    r"""$\partial f/\partial x_{ij}$ as central differences $(f(x+hE_{ij})-f(x-hE_{ij}))/2h$, in the shape of `x`.

    Without truncation error, for any step, for a polynomial of second degree.
    """
    if not callable(f):
        raise TypeError(f"f must be a function of one array, got {type(f).__name__}.")
    x, step = real("x", x), positive("step", real("step", step, ""))
    units = step * jnp.eye(x.size, dtype=x.dtype).reshape(x.size, *x.shape)
    return jax.vmap(lambda e: (f(x + e) - f(x - e)) / (2 * step))(units).reshape(x.shape)
