r"""Deep linear networks with random weights: moments and gradient norms, exactly.

$\hat y=W^L\cdots W^1x$ with independent weights of mean 0, variance $\sigma^2$ and kurtosis $\kappa$ (3: normal, 1:
signs, 1.8: uniform), the loss $\frac12\|\hat y-y\|^2$. A few moments determine themselves from layer to layer, so
that all expectations are exact at any width, depth and kurtosis, not only bounded and not only for normal weights.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float

from corollary._types import Scalar
from corollary._validate import one_of, positive, real, whole, within
from corollary.catalog import implements


@implements("B06.13")
def matrix_jacobian(x: Float[ArrayLike, "d"], rows: int, order: str = "column") -> Float[Array, "_ _"]:
    r"""The Jacobian of $Ax$ by $\mathrm{vec}A$ for $A$ with this number of `rows`: shape (rows, rows $\cdot$ d).

    $x^\top\otimes I$ if the columns of $A$ are stacked, $I\otimes x^\top$ if its rows are (`order="row"`, the layout of
    arrays). By $x$ the Jacobian is $A$ itself.
    """
    x, rows = real("x", x, "d"), whole("rows", rows)
    eye = jnp.eye(rows, dtype=x.dtype)
    return jnp.kron(x[None], eye) if one_of("order", order, ("column", "row")) == "column" else jnp.kron(eye, x[None])


@implements("B06.15")
def deep_linear_gradients(
    weights: Sequence[Array], x: Float[ArrayLike, "_"], y: Float[ArrayLike, "_"]
) -> tuple[jax.Array, ...]:
    r"""$\partial\ell/\partial W^k=(W^{k+1})^\top\cdots(W^L)^\top\delta\,(W^{k-1}\cdots W^1x)^\top$, $\delta=\hat y-y$,
    for all $k$.
    """
    weights = [real(f"weights[{i}]", w, "m n") for i, w in enumerate(weights)]
    if not weights:
        raise ValueError("weights must hold at least one matrix.")
    states = [real("x", x, str(weights[0].shape[1]))]
    for i, w in enumerate(weights):
        if w.shape[1] != states[-1].shape[0]:
            raise ValueError(f"weights[{i}] must have {states[-1].shape[0]} columns, got shape {w.shape}.")
        states.append(w @ states[-1])
    delta, gradients = states[-1] - real("y", y, str(weights[-1].shape[0])), []
    for w, state in zip(weights[::-1], states[-2::-1], strict=True):
        gradients.append(jnp.outer(delta, state))
        delta = w.T @ delta
    return tuple(gradients[::-1])


@implements("B06.16")
def second_moment_through(a: Float[ArrayLike, "m n"], b: Float[ArrayLike, "p q"], variance: Scalar) -> Float[Array, ""]:
    r"""$\mathbb E\|AWB\|_F^2=\sigma^2\|A\|_F^2\|B\|_F^2$ for independent entries of $W$ of mean 0 and this variance."""
    a, b, variance = real("a", a, "m n"), real("b", b, "p q"), positive("variance", real("variance", variance, ""))
    return variance * jnp.sum(a**2) * jnp.sum(b**2)


@implements("B06.18")
def fourth_moment_through(
    xi: Float[ArrayLike, "n"], rows: int, variance: Scalar, kurtosis: Scalar = 3.0
) -> Float[Array, ""]:
    r"""$\mathbb E\|W\xi\|_2^4=m(m+2)\sigma^4\|\xi\|_2^4+(\kappa-3)m\sigma^4\|\xi\|_4^4$ for $W$ with $m$ rows."""
    xi, m, variance, kurtosis = real("xi", xi, "n"), whole("rows", rows), *_law(variance, kurtosis)
    return variance**2 * (m * (m + 2) * jnp.sum(xi**2) ** 2 + (kurtosis - 3) * m * jnp.sum(xi**4))


@implements("B06.17")
def forward_second_moments(x: Float[ArrayLike, "d"], widths: Sequence[int], variance: Scalar) -> Float[Array, "_"]:
    r"""$\mathbb E\|W^t\cdots W^1x\|^2=\prod_{j\le t}n_j\sigma^2\,\|x\|^2$, $t=0..L$, for `widths` $n_1..n_L$."""
    x, widths, (variance, _) = real("x", x, "d"), _widths(widths), _law(variance, 3.0)
    growth = jnp.cumprod(jnp.concatenate([jnp.ones(1, x.dtype), variance * jnp.asarray(widths, x.dtype)]))
    return growth * jnp.sum(x**2)


@implements("B06.18", "B06.20")
def forward_fourth_moments(
    x: Float[ArrayLike, "d"], widths: Sequence[int], variance: Scalar, kurtosis: Scalar = 3.0
) -> Float[Array, "_"]:
    r"""$\mathbb E\|W^t\cdots W^1x\|_2^4$, $t=0..L$.

    With $a=\mathbb E\|\cdot\|_2^4$ and $b=\mathbb E\|\cdot\|_4^4$ a layer of $m$ units makes
    $\sigma^4m[(m+2)a+(\kappa-3)b]$ of the first and $\sigma^4m[3a+(\kappa-3)b]$ of the second.
    """
    x, widths, (variance, kurtosis) = real("x", x, "d"), _widths(widths), _law(variance, kurtosis)
    return _fourth_moments(x, jnp.asarray(widths, x.dtype), variance.astype(x.dtype), kurtosis.astype(x.dtype))


@jax.jit
def _fourth_moments(x, widths, variance, kurtosis):
    def advance(state, m):
        a, b = state
        extra = (kurtosis - 3) * b
        state = variance**2 * m * ((m + 2) * a + extra), variance**2 * m * (3 * a + extra)
        return state, state[0]

    start = jnp.sum(x**2) ** 2, jnp.sum(x**4)
    _, rest = jax.lax.scan(advance, start, widths)
    return jnp.concatenate([start[0][None], rest])


@implements("B06.20")
def squared_product_moments(widths: Sequence[int], variance: Scalar, kurtosis: Scalar = 3.0) -> Float[Array, "_"]:
    r"""$\mathbb E\|P^\top P\|_F^2$ of $P=W^L\cdots W^{k+1}$ for $k=0..L$ and `widths` $n_0..n_L$; $n_L$ for $k=L$.

    With $G=W^\top AW$ for a random symmetric $A$ of which one knows $a=\mathbb E\,\mathrm{tr}A^2$, $b=\mathbb
    E(\mathrm{tr}A)^2$ and $c=\mathbb E\sum_iA_{ii}^2$, $G$ of size $n$ has the moments $\sigma^4n[(n-1)a+s]$,
    $\sigma^4n[(n-1)b+s]$ and $\sigma^4ns$, where $s=b+2a+(\kappa-3)c$.
    """
    widths, (variance, kurtosis) = _widths(widths, 2), _law(variance, kurtosis)
    return _squared_products(jnp.asarray(widths, variance.dtype), variance, kurtosis.astype(variance.dtype))


@jax.jit
def _squared_products(sizes, variance, kurtosis):
    def advance(state, n):
        a, b, c = state
        s = b + 2 * a + (kurtosis - 3) * c
        state = tuple(variance**2 * n * v for v in ((n - 1) * a + s, (n - 1) * b + s, s))
        return state, state[0]

    start = sizes[-1], sizes[-1] ** 2, sizes[-1]
    _, rest = jax.lax.scan(advance, start, sizes[-2::-1])
    return jnp.concatenate([rest[::-1], start[0][None]])


@implements("B06.19", "B06.20")
def expected_gradient_norms(
    x: Float[ArrayLike, "d"], y: Float[ArrayLike, "_"], widths: Sequence[int], variance: Scalar, kurtosis: Scalar = 3.0
) -> Float[Array, "_"]:
    r"""$\mathbb E\|\partial\ell/\partial W^k\|_F^2$, $k=1..L$, exactly, for layers of `widths` $n_1..n_L$.

    $\sigma^2\,\mathbb E\|W^{k-1:1}x\|_2^4\;\mathbb
    E\|W^{k+1:L}W^{L:k+1}\|_F^2+\|x\|^2\|y\|^2\prod_{j<L}n_j\sigma^2$: the terms with $\hat y$ and with $y$. The mixed
    one is linear in $W^k$ and vanishes, which is why no factors of 2 are needed.
    """
    x, widths = real("x", x, "d"), _widths(widths)
    y = real("y", y, str(widths[-1]))
    moments = forward_fourth_moments(x, widths, variance, kurtosis)[:-1]
    variance = _law(variance, kurtosis)[0].astype(x.dtype)
    products = squared_product_moments((x.shape[0], *widths), variance, kurtosis)[1:]
    inner = jnp.prod(variance * jnp.asarray(widths[:-1], x.dtype))
    return variance * moments * products + inner * jnp.sum(x**2) * jnp.sum(y**2)


@implements("B06.20")
def gaussian_gradient_norm(
    d: int,
    L: int,
    k: Float[ArrayLike, "..."],
    variance: Float[ArrayLike, "..."],
    rho: Float[ArrayLike, "..."],
    gamma: Float[ArrayLike, "..."],
) -> Float[Array, "..."]:
    r"""The same in closed form for normal weights and equal widths, $\rho=\|x\|^4$ and $\gamma=\|x\|^2\|y\|^2$:
    $\frac\rho{3\sigma^2}\sigma^{4L}(d(d+2))^{k-1}[(d(d+2))^{L-k+1}-(d(d-1))^{L-k+1}]+\gamma(\sigma^2d)^{L-1}$.
    """
    d, L, variance, rho, gamma = _square(d, L, variance, rho, gamma)
    k = within("k", real("k", k), 1, L)
    big, small = variance**2 * d * (d + 2), variance**2 * d * (d - 1)
    first = rho / (3 * variance) * big ** (k - 1) * (big ** (L - k + 1) - small ** (L - k + 1))
    return first + gamma * (variance * d) ** (L - 1)


@implements("B06.20")
def gaussian_gradient_bound(
    d: int, L: int, variance: Float[ArrayLike, "..."], rho: Float[ArrayLike, "..."], gamma: Float[ArrayLike, "..."]
) -> Float[Array, "..."]:
    r"""The bound of the text, for every $k$: $\frac{2\rho}{3\sigma^2}[\sigma^4d(d+2)]^L+2\gamma(\sigma^2d)^{L-1}$."""
    d, L, variance, rho, gamma = _square(d, L, variance, rho, gamma)
    return 2 * rho / (3 * variance) * (variance**2 * d * (d + 2)) ** L + 2 * gamma * (variance * d) ** (L - 1)


def _square(d, L, variance, rho, gamma):
    d, L, variance = whole("d", d), whole("L", L), positive("variance", real("variance", variance))
    return d, L, variance, within("rho", real("rho", rho), 0.0), within("gamma", real("gamma", gamma), 0.0)


def _law(variance, kurtosis):
    variance = positive("variance", real("variance", variance, ""))
    # by Jensen's inequality no law has a kurtosis below 1
    return variance, within("kurtosis", real("kurtosis", kurtosis, ""), 1.0)


def _widths(widths, least: int = 1) -> tuple[int, ...]:
    widths = tuple(whole("widths", int(w) if hasattr(w, "item") else w) for w in widths)
    if len(widths) < least:
        raise ValueError(f"widths must hold at least {least} numbers, got {len(widths)}.")
    return widths
