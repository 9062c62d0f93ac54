"""Derivatives as limits, the chain rule, Taylor's theorem, and the mean value theorems with their integrals."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float

from corollary._show import shown
from corollary._types import Scalar
from corollary._validate import one_of, positive, real, whole
from corollary.catalog import implements
from corollary.foundations.quadrature import gauss_legendre


@implements("B01.07")
def difference_quotient(
    f: Callable, x: Float[ArrayLike, "..."], v: Float[ArrayLike, "..."], step: Scalar, scheme: str = "forward"
) -> Float[Array, ""]:
    r"""$(f(x+\epsilon v)-f(x))/\epsilon$, or $(f(x+\epsilon v)-f(x-\epsilon v))/2\epsilon$ for `scheme="central"`."""
    f, x, v = _function("f", f), real("x", x), real("v", v)
    if x.shape != v.shape:
        raise ValueError(f"x and v must have the same shape, got {x.shape} and {v.shape}.")
    step = positive("step", real("step", step, ""))
    if one_of("scheme", scheme, ("forward", "central")) == "central":
        return (f(x + step * v) - f(x - step * v)) / (2 * step)
    return (f(x + step * v) - f(x)) / step


@implements("B01.07", "M07.22")
def finite_difference_gradient(
    f: Callable, x: Float[ArrayLike, "d"], step: Scalar, scheme: str = "central"
) -> Float[Array, "..."]:
    r"""All partial derivatives of a real function of a vector as difference quotients along the unit vectors."""
    x = real("x", x, "d")
    return jax.vmap(lambda e: difference_quotient(f, x, e, step, scheme))(jnp.eye(x.size, dtype=x.dtype))


@implements("B01.07")
def directional_derivative(f: Callable, x: Float[ArrayLike, "..."], v: Float[ArrayLike, "..."]) -> Float[Array, ""]:
    r"""$D_vf(x)=\lim_{\epsilon\to0}(f(x+\epsilon v)-f(x))/\epsilon=\nabla f(x)\cdot v$, exactly."""
    f, x, v = _function("f", f), real("x", x), real("v", v)
    if x.shape != v.shape:
        raise ValueError(f"x and v must have the same shape, got {x.shape} and {v.shape}.")
    dtype = jnp.result_type(x, v)
    return jax.jvp(f, (x.astype(dtype),), (v.astype(dtype),))[1]


@implements("B01.08")
def chain_jacobian(f: Callable, g: Callable, x: Float[ArrayLike, "k"]) -> Float[Array, "..."]:
    r"""$J_{f\circ g}(x)=J_f(g(x))\,J_g(x)$ as a product of two matrices, for maps of vectors to vectors."""
    f, g, x = _function("f", f), _function("g", g), real("x", x, "k")
    inner = g(x)
    if jnp.ndim(inner) != 1:
        raise ValueError(f"g must return a vector, got shape {jnp.shape(inner)}.")
    return jax.jacobian(f)(inner) @ jax.jacobian(g)(x)


@implements("B01.09")
def taylor_coefficients(f: Callable, a: Scalar, order: int) -> Float[Array, "_"]:
    r"""$f^{(j)}(a)/j!$ for $j=0,\dots,k$, by differentiating `order` times."""
    f, a, order = _function("f", f), real("a", a, ""), whole("order", order, 0, 20)
    derivatives, factorial, current = [f(a)], 1.0, f
    for j in range(1, order + 1):  # each derivative is a new function: there is nothing to batch
        current, factorial = jax.jacfwd(current), factorial * j
        derivatives.append(current(a) / factorial)
    return jnp.stack(derivatives)


@implements("B01.09")
def taylor_polynomial(
    coefficients: Float[ArrayLike, "k"], a: Scalar, x: Float[ArrayLike, "..."]
) -> Float[Array, "..."]:
    r"""$\sum_jc_j(x-a)^j$ at every entry of `x`."""
    coefficients, a, x = real("coefficients", coefficients, "k"), real("a", a, ""), real("x", x)
    return jnp.polyval(coefficients[::-1], x - a)


@implements("B01.09")
def taylor_remainder(f: Callable, a: Scalar, order: int, x: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
    r"""$R_k(x)=f(x)-\sum_{j\le k}\frac{f^{(j)}(a)}{j!}(x-a)^j$ at every entry of `x`."""
    x = real("x", x)
    return jax.vmap(f)(x.ravel()).reshape(x.shape) - taylor_polynomial(taylor_coefficients(f, a, order), a, x)


class MeanValue(NamedTuple):
    r"""A $c\in(0,1)$ with $\nabla f(x+cy)^\top y=f(x+y)-f(x)$, and how far the two sides differ there.

    Where the residual is not small there is no such point near any place that was looked at: for a function that is
    not differentiable there may be none at all.
    """

    c: jax.Array
    residual: jax.Array

    __repr__ = shown


@implements("B01.10")
def mean_value_point(f: Callable, x: Float[ArrayLike, "..."], y: Float[ArrayLike, "..."], grid: int = 200) -> MeanValue:
    r"""Where the slope along the segment from $x$ to $x+y$ equals the mean slope (1.14), (1.15).

    For numbers, $a=x$ and $b=x+y$. The difference of the two slopes has mean zero over the segment, so that it
    changes sign; the first change on a grid is narrowed down by halving.
    """
    f, x, y = _function("f", f), real("x", x), real("y", y)
    if x.shape != y.shape:
        raise ValueError(f"x and y must have the same shape, got {x.shape} and {y.shape}.")
    grid, dtype = whole("grid", grid, 2), jnp.result_type(x, y)
    x, y = x.astype(dtype), y.astype(dtype)
    rise = f(x + y) - f(x)

    def excess(t):
        return jax.jvp(f, (x + t * y,), (y,))[1] - rise

    # midpoints of cells: the ends themselves are not in the open interval
    ts = (jnp.arange(grid, dtype=rise.dtype) + 0.5) / grid
    values = jax.vmap(excess)(ts)
    changes = (values[:-1] * values[1:] <= 0) & (values[1:] != 0) | (values[:-1] == 0)
    at = jnp.argmax(changes)
    left = values[at]

    def halve(ends, _):
        low, high = ends
        middle = (low + high) / 2
        same = excess(middle) * left > 0
        return (jnp.where(same, middle, low), jnp.where(same, high, middle)), None

    (low, high), _ = jax.lax.scan(halve, (ts[at], ts[at + 1]), length=60)
    # of the two ends of what is left, and of the best point of the grid where nothing changes sign
    candidates = jnp.stack([low, high, ts[jnp.argmin(jnp.abs(values))]])
    residuals = jax.vmap(excess)(candidates)
    best = jnp.argmin(jnp.abs(residuals))
    return MeanValue(candidates[best], residuals[best])


@implements("B01.11")
def integral_increment(
    f: Callable, x: Float[ArrayLike, "..."], y: Float[ArrayLike, "..."], nodes: int = 40
) -> Float[Array, ""]:
    r"""$\int_0^1\nabla f(x+ty)^\top y\,dt$, which is $f(x+y)-f(x)$ for $f\in C^1$ (1.16). By Gauss-Legendre."""
    f, x, y, t, w = _segment(f, x, y, nodes)
    return w @ jax.vmap(lambda t: jax.jvp(f, (x + t * y,), (y,))[1])(t)


@implements("B01.11")
def integral_gradient_increment(
    f: Callable, x: Float[ArrayLike, "..."], y: Float[ArrayLike, "..."], nodes: int = 40
) -> Float[Array, "..."]:
    r"""$\int_0^1\nabla^2f(x+ty)\,y\,dt$, which is $\nabla f(x+y)-\nabla f(x)$ for $f\in C^2$ (1.18)."""
    f, x, y, t, w = _segment(f, x, y, nodes)
    return jnp.tensordot(w, jax.vmap(lambda t: jax.jvp(jax.grad(f), (x + t * y,), (y,))[1])(t), 1)


@implements("B01.12")
def integral_second_remainder(
    f: Callable,
    x: Float[ArrayLike, "..."],
    y: Float[ArrayLike, "..."],
    nodes: int = 40,
    *,
    weight: Callable = lambda t: 1 - t,
) -> Float[Array, ""]:
    r"""$\int_0^1(1-t)\,y^\top\nabla^2f(x+ty)\,y\,dt=f(x+y)-f(x)-\nabla f(x)^\top y$ for $f\in C^2$.

    (1.17) prints the `weight` as the constant 1/2, which is right for quadratics only.
    """
    f, x, y, t, w = _segment(f, x, y, nodes)

    def bend(t):
        return jax.jvp(lambda s: jax.jvp(f, (x + s * y,), (y,))[1], (t,), (jnp.ones_like(t),))[1]

    return w @ (jax.vmap(weight)(t) * jax.vmap(bend)(t))


def _segment(f, x, y, nodes):
    f, x, y = _function("f", f), real("x", x), real("y", y)
    if x.shape != y.shape:
        raise ValueError(f"x and y must have the same shape, got {x.shape} and {y.shape}.")
    dtype = jnp.result_type(x, y)
    t, w = gauss_legendre(whole("nodes", nodes))
    return f, x.astype(dtype), y.astype(dtype), jnp.asarray(t, dtype), jnp.asarray(w, dtype)


def _function(name, f):
    if not callable(f):
        raise TypeError(f"{name} must be a function, got {type(f).__name__}.")
    return f
