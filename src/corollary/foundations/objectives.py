"""Three losses with their derivatives written out: least squares, matrix factorisation, nonlinear least squares."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray

from corollary._show import shown
from corollary._types import Scalar
from corollary._validate import positive, real, whole
from corollary.catalog import implements


@implements("B01.13", "B01.33")
class LeastSquares(eqx.Module):
    r"""$L(x)=\|Ax-y\|_2^2$: the plain sum of squares, without the $\frac12$ or $\frac1n$ that other places have."""

    a: jax.Array
    y: jax.Array

    def __init__(self, a: Float[ArrayLike, "n d"], y: Float[ArrayLike, "n"]):
        dims = {}
        self.a, self.y = real("a", a, "n d", dims), real("y", y, "n", dims)

    def __call__(self, x: Float[ArrayLike, "..."]) -> Float[Array, ""]:
        return jnp.sum((self.a @ self._point(x) - self.y) ** 2)

    def gradient(self, x: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
        r"""$2A^\top(Ax-y)$ (1.21), as a column."""
        return 2 * self.a.T @ (self.a @ self._point(x) - self.y)

    @property
    def hessian(self) -> Float[Array, "_ _"]:
        r"""$2A^\top A$, everywhere."""
        return 2 * self.a.T @ self.a

    @property
    def minimiser(self) -> Float[Array, "_"]:
        """The point of least loss; of least norm if there are several."""
        return jnp.linalg.lstsq(self.a, self.y)[0]

    def _point(self, x):
        return real("x", x, str(self.a.shape[1]))


@implements("B01.33")
class MatrixFactorization(eqx.Module):
    r"""$R\approx UV$ with $U\in\mathbb R^{n\times p}$, $V\in\mathbb R^{p\times m}$; called on one entry $(i,j)$."""

    left: jax.Array
    right: jax.Array

    def __init__(self, rows: int, columns: int, rank: int, *, scale: Scalar = 0.1, key: PRNGKeyArray):
        rows, columns, rank = whole("rows", rows), whole("columns", columns), whole("rank", rank)
        scale = positive("scale", real("scale", scale, ""))
        left_key, right_key = jax.random.split(key)
        self.left = scale * jax.random.normal(left_key, (rows, rank))
        self.right = scale * jax.random.normal(right_key, (rank, columns))

    @classmethod
    def of(cls, left: Float[ArrayLike, "n p"], right: Float[ArrayLike, "p m"]) -> "MatrixFactorization":
        """The model with these factors."""
        dims = {}
        left, right = real("left", left, "n p", dims), real("right", right, "p m", dims)
        blank = cls(dims["n"], dims["m"], dims["p"], key=jax.random.key(0))
        return eqx.tree_at(lambda model: (model.left, model.right), blank, (left, right))

    def __call__(self, entry: tuple[int, int]) -> Float[Array, ""]:
        i, j = entry
        return self.left[i] @ self.right[:, j]

    @property
    def product(self) -> Float[Array, "_ _"]:
        return self.left @ self.right


@implements("B01.33")
def factorization_loss(model: MatrixFactorization, r: Float[ArrayLike, "_ _"]) -> Float[Array, ""]:
    r"""$\frac12\|UV-R\|_F^2$."""
    return jnp.sum(_residual(model, r) ** 2) / 2


@implements("B01.33")
def factorization_gradient(model: MatrixFactorization, r: Float[ArrayLike, "_ _"]) -> MatrixFactorization:
    r"""$\partial_U=(UV-R)V^\top$ and $\partial_V=U^\top(UV-R)$, in a model of the same form."""
    residual = _residual(model, r)
    factors = residual @ model.right.T, model.left.T @ residual
    return eqx.tree_at(lambda model: (model.left, model.right), model, factors)


class FactorizationFit(NamedTuple):
    """The factors after the last step, and the loss before each."""

    model: MatrixFactorization
    losses: jax.Array

    __repr__ = shown


@implements("B01.33")
def fit_factorization(
    model: MatrixFactorization, r: Float[ArrayLike, "_ _"], step: Scalar, steps: int
) -> FactorizationFit:
    """Gradient descent on both factors with a constant step."""
    step, steps = positive("step", real("step", step, "")), whole("steps", steps)
    _residual(model, r)

    def advance(model, _):
        slope = factorization_gradient(model, r)
        return jax.tree.map(lambda a, b: a - (step * b).astype(a.dtype), model, slope), factorization_loss(model, r)

    return FactorizationFit(*jax.lax.scan(advance, model, length=steps))


@implements("B01.33")
class NonlinearLeastSquares(eqx.Module):
    r"""$L(w)=\frac1{2n}\sum_i(y_i-\ell(x_i^\top w))^2$ for a real function $\ell$ of a number, with its derivatives."""

    x: jax.Array
    y: jax.Array
    link: callable = eqx.field(static=True)

    def __init__(self, x: Float[ArrayLike, "n d"], y: Float[ArrayLike, "n"], link: Callable):
        dims = {}
        self.x, self.y = real("x", x, "n d", dims), real("y", y, "n", dims)
        if not callable(link):
            raise TypeError(f"link must be a function of a number, got {type(link).__name__}.")
        self.link = link

    def __call__(self, w: Float[ArrayLike, "..."]) -> Float[Array, ""]:
        return jnp.mean((self.y - jax.vmap(self.link)(self._logits(w))) ** 2) / 2

    def gradient(self, w: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
        r"""$-\frac1n\sum(y_i-\ell(z_i))\,\ell'(z_i)\,x_i$."""
        residual, first, _ = self._derivatives(w)
        return -self.x.T @ (residual * first) / self.y.size

    def hessian(self, w: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
        r"""$\frac1n\sum[\ell'(z_i)^2-(y_i-\ell(z_i))\,\ell''(z_i)]\,x_ix_i^\top$."""
        residual, first, second = self._derivatives(w)
        return (self.x.T * (first**2 - residual * second)) @ self.x / self.y.size

    def gauss_newton(self, w: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
        r"""The Hessian without the term in $\ell''$: right where the residuals vanish, and never indefinite."""
        _, first, _ = self._derivatives(w)
        return (self.x.T * first**2) @ self.x / self.y.size

    def _logits(self, w):
        return self.x @ real("w", w, str(self.x.shape[1]))

    def _derivatives(self, w):
        z = self._logits(w)
        first, second = jax.grad(self.link), jax.grad(jax.grad(self.link))
        return self.y - jax.vmap(self.link)(z), jax.vmap(first)(z), jax.vmap(second)(z)


def _residual(model, r):
    if not isinstance(model, MatrixFactorization):
        raise TypeError(f"model must be a MatrixFactorization, got {type(model).__name__}.")
    return model.product - real("r", r, f"{model.left.shape[0]} {model.right.shape[1]}")
