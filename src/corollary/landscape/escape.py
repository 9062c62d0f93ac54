r"""Perturbed gradient descent: a little noise, so that no strict saddle holds it, with the constants of the theorem.

The text hides constants and logarithms. Here they are explicit, for an $\ell$-gradient and $\rho$-Hessian Lipschitz
$f$ with $\epsilon\le\ell^2/\rho$. With $\iota$ as below, $\eta=1/\ell$ and
$$r=\frac{\epsilon}{400\iota^3},\quad \mathscr T=\frac{\ell}{\sqrt{\rho\epsilon}}\iota,\quad
S=\frac1{4\iota}\sqrt{\frac\epsilon\rho},\quad \mathscr F=\frac1{50\iota^3}\sqrt{\frac{\epsilon^3}\rho},$$
a perturbation at a point with $\|\nabla f\|\le\epsilon$ and $\lambda_{\min}\le-\sqrt{\rho\epsilon}$ is followed
within $\mathscr T$ steps by a decrease of at least $\mathscr F/2$, except with probability
$\frac{\ell\sqrt d}{\sqrt{\rho\epsilon}}\iota^22^{8-\iota}$: of two starts that differ by more than
$\eta\omega$, $\omega=2^{2-\iota}\ell S$, along the direction of escape one gets $S$ away from the saddle, and who
moves far has descended. There are at most $2\Delta/\mathscr F$ such rounds.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax.typing import DTypeLike
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray

from corollary._engine.trees import (
    Draws,
    drawn_like,
    draws_from,
    each,
    next_key,
    normal_like,
    size_of,
    squared_norm,
)
from corollary._show import shown
from corollary._types import Scalar
from corollary._validate import positive, real, whole, within
from corollary.catalog import implements
from corollary.optimization import Problem, minimize


class Escape(NamedTuple):
    r"""The parameters of perturbed gradient descent and what they promise.

    `step`, `radius` $r$ and `interval` $\mathscr T$ run the method; `reach` is $S$, `drop` is $\mathscr F$, `width`
    is $\omega$, `iota` the logarithm, and `budget` the number of steps within which an
    $\epsilon$-second-order stationary point is visited with probability at least $1-\delta$.
    """

    epsilon: jax.Array
    step: jax.Array
    radius: jax.Array
    interval: jax.Array
    reach: jax.Array
    drop: jax.Array
    width: jax.Array
    iota: jax.Array
    budget: jax.Array

    __repr__ = shown


@implements("T07.05")
def escape_parameters(ell: Scalar, rho: Scalar, epsilon: Scalar, delta: Scalar, dim: int, gap: Scalar) -> Escape:
    r"""The constants for an $\ell$-gradient, $\rho$-Hessian Lipschitz function with $f(x_0)-f^*\le$ `gap`.

    $\iota$ solves $2^\iota=\frac1\delta(1+\frac{2\Delta}{\mathscr F(\iota)})\,256\,\iota^2\frac{\ell\sqrt
    d}{\sqrt{\rho\epsilon}}$: all rounds together fail with probability at most $\delta$. The budget is
    $(2+100\iota^4)\ell\Delta/\epsilon^2+\mathscr T$: steps with a large gradient, rounds of $\mathscr T$ steps each,
    and the last round. Accuracies $\epsilon>\ell^2/\rho$, at which every point with a small gradient is good enough,
    are refused.
    """
    ell, rho = positive("ell", real("ell", ell, "")), positive("rho", real("rho", rho, ""))
    epsilon, gap = positive("epsilon", real("epsilon", epsilon, "")), positive("gap", real("gap", gap, ""))
    delta, dim = within("delta", real("delta", delta, ""), 0.0, 1.0, open="both"), whole("dim", dim)
    if not any(isinstance(v, jax.core.Tracer) for v in (ell, rho, epsilon)):
        within("epsilon", epsilon, 0.0, float(ell) ** 2 / float(rho) * (1 + 1e-9), open="low")
    root = jnp.sqrt(rho * epsilon)

    def smallest(_, iota):
        rounds = 1 + 100 * iota**3 * gap * jnp.sqrt(rho / epsilon**3)
        return jnp.log2(256 * ell * jnp.sqrt(dim) / root / delta) + 2 * jnp.log2(iota) + jnp.log2(rounds)

    # every round multiplies the error by about 5 / (iota ln 2), which is below one from iota = 7.3 on
    iota = jax.lax.fori_loop(0, 80, smallest, 50.0 + 0 * root)
    reach = jnp.sqrt(epsilon / rho) / (4 * iota)
    interval = jnp.ceil(ell / root * iota)
    return Escape(
        epsilon=epsilon,
        step=1 / ell,
        radius=epsilon / (400 * iota**3),
        interval=interval,
        reach=reach,
        drop=jnp.sqrt(epsilon**3 / rho) / (50 * iota**3),
        width=2.0 ** (2 - iota) * ell * reach,
        iota=iota,
        budget=(2 + 100 * iota**4) * ell * gap / epsilon**2 + interval,
    )


@implements("T07.05")
def uniform_ball(
    dim: int, radius: Scalar = 1.0, *, key: PRNGKeyArray, dtype: DTypeLike | None = None
) -> Float[Array, "_"]:
    r"""A point drawn uniformly from the ball of this radius: the first $d$ coordinates of one from the sphere in
    $\mathbb R^{d+2}$.
    """
    dim, radius = whole("dim", dim), within("radius", real("radius", radius, ""), 0.0)
    z = jax.random.normal(key, (dim + 2,), radius.dtype if dtype is None else dtype)
    return radius * z[:dim] / jnp.linalg.norm(z)


@implements("T07.04")
def gaussian_perturbed_descent(step: Scalar, radius: Scalar, *, key: PRNGKeyArray) -> optax.GradientTransformation:
    r"""$x_{t+1}=x_t-\eta(\nabla f(x_t)+\xi_t)$ with $\xi_t\sim N(0,\frac{r^2}dI)$, drawn by `key`, so that
    $\mathbb E\|\xi_t\|^2=r^2$.
    """
    step = positive("step", real("step", step, ""))
    radius = within("radius", real("radius", radius, ""), 0.0)

    def update(updates, state, params=None):
        now, state = next_key(state, key)
        root = jnp.sqrt(size_of(updates))
        return each(lambda g, xi: -step * (g + radius * xi / root), updates, normal_like(now, updates)), state

    return optax.GradientTransformation(lambda params: draws_from(key), update)


class Waiting(NamedTuple):
    """The steps since the last perturbation, and where the next one is drawn from."""

    since: jax.Array
    draws: Draws


@implements("T07.05", "T07.06")
def perturbed_descent(parameters: Escape, *, key: PRNGKeyArray) -> optax.GradientTransformationExtraArgs:
    r"""Gradient descent that, where $\|\nabla f(x_t)\|\le\epsilon$ and nothing was added in the last $\mathscr T$
    steps, first adds $-\eta\xi_t$ with $\xi_t$ uniform on the ball of radius $r$, drawn by `key`.

    The gradient at the perturbed point comes from the extra argument `gradient_fn`.
    """
    if not isinstance(parameters, Escape):
        raise TypeError(f"parameters must come from escape_parameters, got {type(parameters).__name__}.")
    epsilon, step, radius, interval = parameters[:4]

    def init(params):
        return Waiting(jnp.asarray(interval + 1.0), draws_from(key))

    def update(updates, state, params, *, gradient_fn=None, **extra):
        if gradient_fn is None:
            raise TypeError("perturbed_descent asks for gradient_fn, which optimization.minimize and nets.fit pass.")
        now, draws = next_key(state.draws, key)
        again = (jnp.sqrt(squared_norm(updates)) <= epsilon) & (state.since > interval)

        def perturbed():
            ball = drawn_like(lambda size, dtype: uniform_ball(size, radius, key=now, dtype=dtype), params)
            away = each(lambda xi: -step * xi, ball)
            slope = gradient_fn(each(jnp.add, params, away))
            return each(lambda away, g: away - step * g, away, slope)

        moves = jax.lax.cond(again, perturbed, lambda: each(lambda g: -step * g, updates))
        return moves, Waiting(jnp.where(again, 1.0, state.since + 1), draws)

    return optax.GradientTransformationExtraArgs(init, update)


class Search(NamedTuple):
    r"""A run of perturbed gradient descent: the iterates and values, and the first second-order stationary one.

    `first` is its step, `steps + 1` if there was none.
    """

    theta: jax.Array
    value: jax.Array
    gradient_norm: jax.Array
    first: jax.Array
    parameters: Escape

    __repr__ = shown


@implements("T07.06")
def find_second_order_point(
    problem: Problem,
    rho: Scalar,
    epsilon: Scalar,
    delta: Scalar,
    *,
    steps: int,
    key: PRNGKeyArray,
    gap: Scalar | None = None,
    start: Float[ArrayLike, "..."] | None = None,
) -> Search:
    r"""Run perturbed gradient descent with the constants of the theorem for at most `steps` steps.

    The problem brings $\ell$ as `L` and, unless `gap` is given, $f^*$ as `minimum`. The Hessian of every iterate is
    decomposed to tell whether it is an $\epsilon$-second-order stationary point: for problems of moderate dimension.
    """
    if not isinstance(problem, Problem):
        raise TypeError(f"problem must be a Problem, got {type(problem).__name__}.")
    if problem.L is None or (gap is None and problem.minimum is None):
        raise ValueError("problem must know its smoothness constant L, and its minimum unless gap is given.")
    steps = whole("steps", steps)
    start = problem.start if start is None else real("start", start)
    gap = problem(start) - problem.minimum if gap is None else gap
    parameters = escape_parameters(problem.L, rho, epsilon, delta, start.size, gap)
    path = minimize(problem, perturbed_descent(parameters, key=key), steps=steps, key=key, start=start)
    least = jax.lax.map(lambda x: jnp.linalg.eigvalsh(problem.hessian(x))[0], path.theta)
    good = (path.gradient_norm <= epsilon) & (least >= -jnp.sqrt(rho * epsilon))
    first = jnp.where(good.any(), jnp.argmax(good), steps + 1)
    return Search(path.theta, path.value, path.gradient_norm, first, parameters)
