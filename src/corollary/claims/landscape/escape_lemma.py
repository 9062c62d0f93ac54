"""What a step, an interval and a perturbation are worth at a saddle (T sections 7.2 and 7.3)."""

from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np
import optax

from corollary.evidence import (
    Count,
    Probability,
    Range,
    Size,
    at_least,
    at_most,
    claim,
    control,
    equal,
    estimate,
    frequency_at_most,
    rate,
)
from corollary.landscape import cubic_saddle, escape_parameters, slab_probability, uniform_ball
from corollary.optimization import Problem, minimize, quadratic, random_cosines


@claim(rows=("T07.07",))
def two_descents(key, *, starts: Size = 16, dim: Size = 4, steps: Count = 100):
    r"""A large gradient lowers the value in one step, a saddle in an interval.

    With $\eta=1/\ell$: (1) where $\|\nabla f(x_t)\|>\epsilon$, $f(x_{t+1})-f(x_t)\le-\frac{\epsilon^2}{2\ell}$,
    attained by a quadratic; (2) where $\|\nabla f\|\le\epsilon$ and $\lambda_{\min}\le-\sqrt{\rho\epsilon}$, after a
    perturbation and $\mathscr T$ steps $f$ has fallen by at least $\frac{\mathscr
    F}2=\frac1{100\iota^3}\sqrt{\epsilon^3/\rho}$ with high probability. On
    $-\frac{\sqrt{\rho\epsilon}}2x_1^2+\frac\rho6|x_1|^3$ it falls all the way, by
    $\frac23\sqrt{\epsilon^3/\rho}$: the power of $\epsilon$ is right.
    """
    accuracies = 10.0 ** -jnp.linspace(1, 3, 7)

    @jax.jit
    def measure(key):
        f_key, x_key, p_key = jax.random.split(key, 3)
        f = random_cosines(dim, key=f_key, frequency=2.0)
        x0 = 2 * jax.random.normal(x_key, (starts, dim))
        paths = jax.vmap(lambda s: minimize(f, optax.sgd(1 / f.L), steps=steps, start=s))(x0)
        line = quadratic(jnp.array([2.0]))
        best, long = (minimize(line, optax.sgd(c / 2.0), steps=1, start=jnp.ones(1)) for c in (1.0, 2.5))

        def saddle(eps):
            problem = cubic_saddle(dim, jnp.sqrt(eps))
            p = escape_parameters(1.0, 1.0, eps, 0.1, dim, -problem.minimum)
            x = uniform_ball(dim, p.step * p.radius, key=p_key)
            # one length for all: after its interval a run stands still
            advance = lambda x, t: (jnp.where(t < p.interval, x - p.step * problem.gradient(x), x), None)  # noqa: E731
            return -problem(jax.lax.scan(advance, x, jnp.arange(4000))[0]), p.drop / 2, p.interval

        return paths, f.L, best, long, jax.vmap(saddle)(accuracies)

    paths, L, best, long, (fall, promised, interval) = measure(key)
    slope = paths.gradient_norm[:, :-1] ** 2
    # values of the order of one are known to 1e-16 each
    yield at_most(
        "change of the value in one step", jnp.diff(paths.value), -slope / (2 * L), atol=1e-15, along="iteration"
    )
    change = best.value[1] - best.value[0]
    yield equal("quadratic: attained", change, -(best.gradient_norm[0] ** 2) / 4)
    yield at_most("longest interval that was run", interval.max(), 4000)
    yield at_least("fall within an interval, against the promise", fall, promised, x=accuracies, along="ε")
    yield equal("fall within an interval", fall, 2 / 3 * accuracies**1.5, rtol=1e-6, x=accuracies, along="ε")
    yield rate("fall within an interval, its power", accuracies, fall, 1.5, tolerance=0.05, along="ε")
    yield control(
        "a step of at most 1/ℓ: here 2.5/ℓ",
        at_most("change of the value in one step", long.value[1] - long.value[0], -(long.gradient_norm[0] ** 2) / 4),
    )


@claim(rows=("T07.08",))
def escaping_lemma(
    key, *, runs: Size = 20_000, delta: Probability = 0.15, eps: Annotated[float, Range(0.01, 0.5)] = 0.1
):
    r"""After a random perturbation at a saddle the value falls, except for a slab of starts that shrinks with time.

    Let $\|\nabla f(\tilde x)\|\le\epsilon$ and $\lambda_{\min}(\nabla^2f(\tilde x))\le-\sqrt{\rho\epsilon}$. From
    $x_0=\tilde x+\eta\xi$, $\xi$ uniform on the ball of radius $r$, gradient descent has lowered $f$ by
    $\frac{\mathscr F}2$ after $\mathscr T$ steps, with probability at least $1-\delta$, in any dimension: measured with
    $d=2,20,200$. On $-\frac\gamma2x_1^2+\frac12\sum_{i\ge2}x_i^2$ the failing starts are exactly those with
    $|x_1|<\sqrt{2F/\gamma}\,(1+\eta\gamma)^{-T}$, a slab of the ball, whose probability decays like
    $(1+\eta\gamma)^{-T}$.
    """
    dims, largest, few = (2, 20, 200), 200, 700
    gamma, radius, target = 0.25, 1e-3, 1e-4
    times = jnp.arange(26, 40, 2)

    @jax.jit
    def measure(key):
        z = jax.random.normal(key, (few, largest + 2))
        problem = cubic_saddle(largest, jnp.sqrt(eps))
        centre = problem.start

        def fails(d, p):
            inside = jnp.where(jnp.arange(largest + 2) < d + 2, z, 0.0)
            ball = jnp.where(jnp.arange(largest) < d, inside[:, :largest], 0.0)
            x = centre + p.step * p.radius * ball / jnp.linalg.norm(inside, axis=1, keepdims=True)
            step = lambda x, t: (jnp.where(t < p.interval, x - p.step * jax.vmap(problem.gradient)(x), x), None)  # noqa: E731
            x, _ = jax.lax.scan(step, x, jnp.arange(200))
            return jax.vmap(problem)(x) > problem(centre) - p.drop / 2

        parameters = [escape_parameters(1.0, 1.0, eps, delta, d, 1.0) for d in dims]
        stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *parameters)
        failed = jax.lax.map(lambda a: fails(*a), (jnp.asarray(dims), stacked))
        still = fails(2, parameters[0]._replace(radius=jnp.zeros(())))

        def f(x):
            return -gamma / 2 * x[0] ** 2 + jnp.sum(x[1:] ** 2) / 2

        starts = jax.vmap(lambda k: uniform_ball(20, radius, key=k))(jax.random.split(key, runs))
        step = lambda x, t: ((x := x - jax.vmap(jax.grad(f))(x)), jax.vmap(f)(x) > -target)  # noqa: E731
        _, late = jax.lax.scan(step, starts, jnp.arange(40))
        return failed, still, late[times - 1].T.astype(float), stacked.interval

    failed, still, late, interval = measure(key)
    yield at_most("longest interval that was run", interval.max(), 200)
    for d, events in zip(dims, failed, strict=True):
        yield frequency_at_most(f"failures for d = {d}", events, delta)
    slab = slab_probability(20, np.sqrt(2 * target / gamma) * (1 + gamma) ** -np.asarray(times, float) / radius)
    yield estimate("failures after T steps", late, slab, wrong=1.5 * slab)
    slope = -np.log1p(gamma)
    yield rate("failures, decay", times, late.mean(0), slope, tolerance=0.15 * abs(slope), axes="semi-log", along="T")
    yield control("a perturbed start: here without", frequency_at_most("failures", still, delta))


@claim(rows=("T07.09",))
def improve_or_localize(key, *, starts: Size = 16, dim: Size = 4, steps: Count = 100):
    r"""Gradient descent that makes little progress has not gone far.

    For $\ell$-gradient Lipschitz $f$ and $\eta\le1/\ell$, $\|x_\tau-x_0\|\le\sqrt{2\eta t(f(x_0)-f(x_t))}$ for all
    $t\ge\tau>0$. Attained in the first step on $\frac\ell2x^2$ with $\eta=1/\ell$; along a linear function the ratio is
    $1/\sqrt2$ at every $t$.
    """
    t = jnp.arange(1, steps + 1)

    def sides(problem, eta, start):
        path = minimize(problem, optax.sgd(eta), steps=steps, start=start)
        farthest = jax.lax.cummax(jnp.linalg.norm(path.theta[1:] - start, axis=1))
        # where the value has risen there is nothing to allow any distance
        return farthest, jnp.sqrt(2 * eta * t * jnp.maximum(path.value[0] - path.value[1:], 0))

    @jax.jit
    def measure(key):
        f_key, x_key = jax.random.split(key)
        f = random_cosines(dim, key=f_key, frequency=2.0)
        x0 = 2 * jax.random.normal(x_key, (starts, dim))
        slope = jax.random.normal(x_key, (dim,))
        line = Problem(lambda x, slope: slope @ x, (slope,), jnp.zeros(dim))
        bowl = quadratic(jnp.array([3.0]))
        return (
            jax.vmap(lambda c, s: sides(f, c / f.L, s))(jnp.linspace(0.2, 1, starts), x0),
            sides(line, 0.1, jnp.zeros(dim)),
            [sides(bowl, c / 3, jnp.ones(1)) for c in (1.0, 2.5)],
        )

    hills, line, (best, long) = measure(key)
    # differences of values of order one carry a rounding of 1e-16, of which the root of 2 t is taken
    yield at_most("distance, random cosines", *hills, atol=1e-6, x=t, along="iteration")
    yield equal("linear function", line[0] / line[1], 2**-0.5, x=t, along="iteration")
    yield equal("quadratic, one step: attained", best[0][0], best[1][0])
    yield control("a step of at most 1/ℓ: here 2.5/ℓ", at_most("distance, one step", long[0][0], long[1][0]))
