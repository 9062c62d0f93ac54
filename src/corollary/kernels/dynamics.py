r"""What training does to predictions that a constant kernel drives: linear models, linearised and very wide networks.

The loss is $\frac12\|f(X)-y\|^2$ (`reduction="sum"`) or $\frac1{2n}\|f(X)-y\|^2$ (`"mean"`, which divides all rates by
$n$). Gradient flow on the parameters moves the predictions by $\dot f(x)=K(x,X)(y-f(X))$, hence
$$f_t(x)=f_0(x)+K(x,X)\,K^{-1}(I-e^{-tK})(y-f_0(X)),$$
and gradient descent by the same with $(I-\eta K)^t$ in the place of $e^{-tK}$. What these need of $K^{-1}$ is a
function of the eigenvalues that has a limit at zero, so that $K$ may be singular.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, Int

from corollary._show import shown
from corollary._types import Scalar
from corollary._validate import labels, one_of, positive, real, within
from corollary.catalog import implements
from corollary.optimization import gradient_descent


class Predictions(NamedTuple):
    """Predictions at each time: `train` (t, n) or (t, n, k), and `test` at the other points, None without any."""

    train: jax.Array
    test: jax.Array | None

    __repr__ = shown


class Law(NamedTuple):
    """Mean (points,) and covariance (points, points) of a Gaussian vector."""

    mean: jax.Array
    covariance: jax.Array

    __repr__ = shown


@implements("B07.05", "B07.08", "E09.07", "B07.14", "M19.15")
def flow_predictions(
    k: Float[ArrayLike, "n n"],
    y: Float[ArrayLike, "..."],
    times: Float[ArrayLike, "t"],
    *,
    cross: Float[ArrayLike, "m n"] | None = None,
    start: Float[ArrayLike, "..."] | None = None,
    start_cross: Float[ArrayLike, "..."] | None = None,
    reduction: str = "sum",
) -> Predictions:
    r"""Predictions after training for each of `times` by gradient flow, in closed form.

    `k` is $K(X,X)$ and `cross` is $K(x,X)$, (points, n); `start` and `start_cross` are the predictions before training,
    zero unless given. Labels `y` and starts are (n,), or (n, k) for several outputs that share the kernel.
    """
    k, y, cross, start, start_cross, scale = _problem(k, y, cross, start, start_cross, reduction)
    times = within("times", real("times", times, "t"), 0.0).astype(k.dtype)
    return _evolve(flow_filter, k, y, cross, start, start_cross, (scale * times,))


@implements("E09.07", "T03.13")
def descent_predictions(
    k: Float[ArrayLike, "n n"],
    y: Float[ArrayLike, "..."],
    step: Scalar,
    steps: Int[ArrayLike, "t"],
    *,
    cross: Float[ArrayLike, "m n"] | None = None,
    start: Float[ArrayLike, "..."] | None = None,
    start_cross: Float[ArrayLike, "..."] | None = None,
    reduction: str = "sum",
) -> Predictions:
    r"""Predictions after each of these numbers of `steps` of gradient descent, in closed form.

    Stable for a `step` below $2/\lambda_{\max}(K)$ (of $K/n$ for the mean loss). Other arguments as in
    `flow_predictions`.
    """
    k, y, cross, start, start_cross, scale = _problem(k, y, cross, start, start_cross, reduction)
    step = scale * positive("step", real("step", step, "")).astype(k.dtype)
    steps = labels("steps", steps, None, "t")
    return _evolve(descent_filter, k, y, cross, start, start_cross, (step, steps))


@implements("B07.08", "T03.14", "E09.04")
def limit_predictions(
    k: Float[ArrayLike, "n n"],
    y: Float[ArrayLike, "..."],
    *,
    cross: Float[ArrayLike, "m n"] | None = None,
    start: Float[ArrayLike, "..."] | None = None,
    start_cross: Float[ArrayLike, "..."] | None = None,
) -> Predictions:
    r"""Where both end, $f_\infty(x)=f_0(x)+K(x,X)K^+(y-f_0(X))$: `train` (n,) and `test` (points,).

    $K^+$ is $K^{-1}$ where there is one; then the training labels are met.
    """
    k, y, cross, start, start_cross, _ = _problem(k, y, cross, start, start_cross, "sum")
    out = _evolve(limit_filter, k, y, cross, start, start_cross, (jnp.zeros(1, k.dtype),))
    return Predictions(out.train[0], None if cross is None else out.test[0])


@implements("B07.11")
def trained_law(
    ntk: Float[ArrayLike, "p p"],
    nngp: Float[ArrayLike, "p p"],
    y: Float[ArrayLike, "n"],
    time: Scalar | None = None,
    *,
    reduction: str = "sum",
) -> Law:
    r"""Mean and covariance over the initialisations of the trained network's outputs, at all points.

    `ntk` $\Theta$ and `nngp` $\Sigma$ are (points, points), the training points first, as many as there are labels `y`.
    With $A_t=\Theta(\cdot,X)\Theta(X,X)^{-1}(I-e^{-t\Theta(X,X)})$ the mean is $A_ty$ and the covariance
    $(I-A_tP)\Sigma(I-A_tP)^\top$, $P$ picking the training points. `time` None is the end of training. If only the last
    layer is trained, or for random features, $\Theta=\Sigma$, and the end is the posterior of the Gaussian process.
    """
    dims = {}
    ntk, nngp, y = real("ntk", ntk, "p p", dims), real("nngp", nngp, "p p", dims), real("y", y, "n")
    n, points = y.shape[0], dims["p"]
    if n > points:
        raise ValueError(f"y must have at most one label for each of {points} points, got {n}.")
    k, _, _, _, _, scale = _problem(ntk[:n, :n], y, None, None, None, reduction)
    if time is None:
        filtered = partial(limit_filter, jnp.zeros(1, k.dtype))
    else:
        time = within("time", real("time", time, ""), 0.0).astype(k.dtype)
        filtered = partial(flow_filter, scale * time[None])
    values, vectors = spectrum(k)
    # A: how far the labels reach into each point
    reach = ntk[:, :n] @ (vectors * filtered(values)[0]) @ vectors.T
    keep = jnp.eye(points, dtype=reach.dtype).at[:, :n].add(-reach)
    return Law(reach @ y, keep @ nngp @ keep.T)


@implements("T03.13")
def kernel_descent(
    g: Float[ArrayLike, "n n"], y: Float[ArrayLike, "n"], step: Scalar, steps: int
) -> Float[Array, "_ _"]:
    r"""The coefficients $\alpha_{t+1}=\alpha_t-\eta(G\alpha_t-y)$ from 0: (steps + 1, n), by iterating.

    Gradient descent on $\frac12\sum_i(w\cdot\phi(x_i)-y_i)^2$ from 0 has $w_t=\sum_i\alpha_t(i)\phi(x_i)$: the features
    are never needed.
    """
    dims = {}
    g, y = real("g", g, "n n", dims), real("y", y, "n", dims)
    return gradient_descent(lambda alpha: g @ alpha - y, jnp.zeros_like(y), step, steps)


@partial(jax.jit, static_argnums=0)
def _evolve(filtered, k, y, cross, start, start_cross, clock):
    values, vectors = spectrum(k)
    gap = vectors.T @ (y - start)
    # (t, n) weights of the eigenvectors, broadcast over outputs
    weights = filtered(*clock, values).reshape(-1, values.shape[0], *(1,) * (y.ndim - 1)) * gap
    moved = jnp.moveaxis(jnp.tensordot(vectors, weights, (1, 1)), 0, 1)
    train = start + jnp.moveaxis(jnp.tensordot(k, moved, (1, 1)), 0, 1)
    if cross is None:
        return Predictions(train, None)
    return Predictions(train, start_cross + jnp.moveaxis(jnp.tensordot(cross, moved, (1, 1)), 0, 1))


def spectrum(k):
    """Eigenvalues, those below the rounding error of the largest being zero, and eigenvectors."""
    values, vectors = jnp.linalg.eigh((k + k.T) / 2)
    return jnp.where(values > k.shape[0] * jnp.finfo(k.dtype).eps * values[-1], values, 0), vectors


# The filters: (1 - what is left of a residual) / λ, zero for λ = 0. A direction that the kernel of the training points
# does not see is one that its features do not have, so no other point sees it either.


def flow_filter(times, values):
    seen = values > 0
    return jnp.where(seen, -jnp.expm1(-times[:, None] * values) / jnp.where(seen, values, 1), 0)


def descent_filter(step, steps, values):
    seen, rate = values > 0, step * values
    # 1 - (1 - x)^t loses all digits of a small x, and its logarithm is none for a large one
    small = rate < 0.5
    slow = -jnp.expm1(steps[:, None] * jnp.log1p(-jnp.where(small, rate, 0)))
    fast = 1 - (1 - rate) ** steps[:, None]
    return jnp.where(seen, jnp.where(small, slow, fast) / jnp.where(seen, values, 1), 0)


def limit_filter(_, values):
    seen = values > 0
    return jnp.where(seen, 1 / jnp.where(seen, values, 1), 0)[None]


def _problem(k, y, cross, start, start_cross, reduction):
    dims = {}
    k, y = real("k", k, "n n", dims), real("y", y)
    if y.ndim not in (1, 2):
        raise ValueError(f"y must have shape (n,) or (n, k), got {y.shape}.")
    tail = "" if y.ndim == 1 else " k"
    y = real("y", y, "n" + tail, dims).astype(k.dtype)
    start = jnp.zeros_like(y) if start is None else real("start", start, "n" + tail, dims).astype(k.dtype)
    if cross is None and start_cross is not None:
        raise ValueError("start_cross needs cross: the kernel between the other points and the training points.")
    if cross is not None:
        cross = real("cross", cross, "m n", dims).astype(k.dtype)
        blank = jnp.zeros((cross.shape[0], *y.shape[1:]), k.dtype)
        start_cross = blank if start_cross is None else real("start_cross", start_cross, "m" + tail, dims)
    scale = 1.0 if one_of("reduction", reduction, ("sum", "mean")) == "sum" else 1.0 / y.shape[0]
    return k, y, cross, start, start_cross, scale
