"""Which steps make gradient descent on least squares converge, and how fast."""

import jax
import jax.numpy as jnp
import numpy as np

from corollary.claims.linear._pictures import contours
from corollary.data import book_linear_surrogate, linear_data
from corollary.evidence import Count, Size, at_least, at_most, claim, control, equal, printed
from corollary.linear import (
    contraction_factor,
    critical_step,
    descent_path,
    moment_eigenvalues,
    moment_matrix,
    ols_1d,
    safe_step,
    squared_gradient,
    squared_loss,
)
from corollary.optimization import gradient_descent


def _datasets(key, count, n):
    """Features of many laws side by side: each data set has its own mean and its own spread."""
    noise, shift, spread = jax.random.split(key, 3)
    x = jax.random.normal(noise, (count, n))
    return x * jnp.exp(jax.random.normal(spread, (count, 1))) + 2 * jax.random.normal(shift, (count, 1))


def _distances(x, theta0, step, steps):
    """Distance to the minimiser along gradient descent; the labels do not matter to it, so they are zero."""
    path = gradient_descent(lambda t: squared_gradient(t, x, jnp.zeros_like(x)), theta0, step, steps)
    return jnp.linalg.norm(path, axis=-1)


@claim(rows=("M02.06",))
def affine_recursion(key, *, n: Size = 30, runs: Size = 16, steps: Count = 50):
    r"""Gradient descent on least squares is an affine recursion, solved by matrix powers.

    $\theta_{k+1}=\theta_k-\eta\nabla\Lambda(\theta_k)$ gives
    $\theta_{k+1}-\theta_k=(I-2\eta A)(\theta_k-\theta_{k-1})$ and
    $\theta_k-\theta^*=(I-2\eta A)^k(\theta_0-\theta^*)$ for every $\eta>0$.
    """
    data_key, start_key = jax.random.split(key)
    x, y = linear_data(jnp.array([1.6, 5.0]), n, key=data_key, noise=2.0)
    starts = 3 * jax.random.normal(start_key, (runs, 2))
    step = 0.95 * critical_step(x)

    @jax.jit
    def measure(starts):
        def run(error, start):
            slope = jax.grad(lambda t: jnp.mean(jnp.abs(y - t[0] * x - t[1]) ** error))
            return gradient_descent(slope, start, step, steps)

        square = jax.vmap(lambda s: run(2, s))(starts)
        other = jax.vmap(lambda s: run(1.5, s))(starts)
        solved = jax.vmap(lambda s: descent_path(x, y, s, step, steps))(starts)
        return square, solved, jnp.diff(square, axis=1), jnp.diff(other, axis=1)

    square, solved, increments, other_increments = measure(starts)
    contraction = jnp.eye(2) - 2 * step * moment_matrix(x)
    size = 1e-12 * float(jnp.abs(solved).max())
    yield equal("iterates", square, solved, atol=size)
    yield equal("increments", increments[:, 1:], increments[:, :-1] @ contraction, atol=size)
    yield control(
        "the error is not squared but of the power 1.5",
        equal("increments", other_increments[:, 1:], other_increments[:, :-1] @ contraction, atol=size),
    )


@claim(rows=("M02.07",))
def eigenvalues(key, *, sets: Size = 1000, n: Size = 50):
    r"""The eigenvalues of the moment matrix, and how large they can be.

    $$\lambda_\pm=\tfrac12\Big\{(\overline{x^2}+1)\pm\sqrt{(\overline{x^2}-1)^2+4\bar x^2}\Big\},\qquad
    0\le\lambda_-\le\lambda_+\le\overline{x^2}+1 .$$
    $\lambda_-=0$, and with it $\lambda_+=\overline{x^2}+1$, exactly when all $x$ are equal.
    """
    x = _datasets(key, sets, n)
    constant = jnp.broadcast_to(x[:, :1], x.shape)

    @jax.jit
    def measure(x):
        numeric = jax.vmap(lambda x: jnp.linalg.eigvalsh(moment_matrix(x)))(x)
        return numeric, jax.vmap(moment_eigenvalues)(x), (x**2).mean(1) + 1

    numeric, formula, trace = measure(x)
    # a symmetric eigenvalue is computed to within the rounding of the largest one
    yield equal("closed form against an eigensolver", numeric, formula, atol=1e-14 * float(trace.max()))
    yield at_least("smaller eigenvalue", formula[:, 0], 0.0)
    yield at_most("larger eigenvalue", numeric[:, 1], trace)
    degenerate, _, bound = measure(constant)
    yield equal("constant feature: smaller eigenvalue", degenerate[:, 0], 0.0, atol=1e-14 * float(bound.max()))
    yield equal("constant feature: the bound is attained", degenerate[:, 1], bound)
    yield control(
        "the features are not all equal",
        equal("smaller eigenvalue", formula[:, 0], 0.0, atol=1e-14 * float(trace.max())),
    )


@claim(
    rows=("M02.07",),
    erratum="The discriminant is called positive; it is zero when the features have mean 0 and mean square 1.",
)
def discriminant_is_positive(key):
    r"""The discriminant of the moment matrix is positive.

    As printed below (2.10): $(\overline{x^2}-1)^2+4\bar x^2$, "which is positive". For the features $\{-1,1\}$ it is
    zero, $A$ is the identity and has a double eigenvalue. Non-negative is what holds, and all that real eigenvalues
    need.
    """
    x = jnp.array([-1.0, 1.0])
    small, large = jnp.linalg.eigvalsh(moment_matrix(x))
    discriminant = (jnp.mean(x**2) - 1) ** 2 + 4 * jnp.mean(x) ** 2
    yield equal("discriminant: the squared difference of the eigenvalues", discriminant, (large - small) ** 2)
    yield at_least("discriminant, not negative", discriminant, 0.0)
    yield printed(at_least("discriminant, positive", discriminant, np.finfo(float).tiny, rtol=0))


@claim(rows=("M02.08",), full={"sets": 500, "steps": 1000})
def sharp_threshold(key, *, sets: Size = 50, n: Size = 30, steps: Count = 100):
    r"""Gradient descent on least squares converges from every start exactly below the critical step 1/λ+.

    Let the features not all be equal. For $0<\eta<1/\lambda_+$ every step multiplies the distance to the minimiser by
    at most $\rho(\eta)=\max(|1-2\eta\lambda_+|,|1-2\eta\lambda_-|)<1$. For $\eta>1/\lambda_+$ the distance grows from
    every start outside the $\lambda_-$ direction, in the end by the factor $|1-2\eta\lambda_+|$ a step; at
    $\eta=1/\lambda_+$ the $\lambda_+$ component swings between two points.
    """
    data_key, start_key = jax.random.split(key)
    x = _datasets(data_key, sets, n)
    start = jax.random.normal(start_key, (sets, 2))
    ratios = jnp.array([0.5, 0.9, 0.99, 1.01, 1.1, 1.5])

    @jax.jit
    def measure(x, start):
        top, basis = moment_eigenvalues(x)[1], jnp.linalg.eigh(moment_matrix(x))[1]
        steps_of = ratios / top
        lengths = jax.vmap(lambda eta: _distances(x, start, eta, steps))(steps_of)
        rho = jax.vmap(lambda eta: contraction_factor(x, eta))(steps_of)
        # along the top eigenvector alone growth is pure from the first step on
        pure = jax.vmap(lambda eta: _distances(x, basis[:, 1], eta, 30))(steps_of)
        level = jnp.abs(
            gradient_descent(lambda t: squared_gradient(t, x, 0 * x), basis[:, 1], 1 / top, 30) @ basis[:, 1]
        )
        return lengths, rho, pure, level

    lengths, rho, pure, level = jax.vmap(measure)(x, start)
    below, above = ratios < 1, ratios > 1
    worst = lengths[:, below, :1] * rho[:, below, None] ** jnp.arange(steps + 1)
    rounding = 1e-13 * float(lengths[:, below, 0].max())
    yield at_most("distance to the minimiser, η < 1/λ+", lengths[:, below], worst, atol=rounding, along="iteration")
    growth = pure[:, above, 1:] / pure[:, above, :-1]
    yield equal("growth a step, η > 1/λ+", growth.mean(-1), jnp.abs(1 - 2 * ratios[above]))
    yield at_least(
        "distance after all steps over distance at the start, η = 1.5/λ+", lengths[:, -1, -1] / lengths[:, -1, 0], 1.0
    )
    yield equal("swing at η = 1/λ+", level, 1.0)
    yield control(
        "the step is above 1/λ+",
        at_most("distance to the minimiser", lengths[:, above], lengths[:, above, :1], along="iteration"),
    )
    lazy = jax.jit(
        jax.vmap(lambda x: _distances(x, jnp.linalg.eigh(moment_matrix(x))[1][:, 0], 1.1 / moment_eigenvalues(x)[1], 5))
    )(x)
    yield control(
        "the start is not generic: it lies in the λ- direction",
        at_least("distance after five steps, η = 1.1/λ+", lazy[:, -1] / lazy[:, 0], 1.0),
    )


@claim(
    rows=("M02.08",),
    erratum="Every step below 1/λ+ is said to contract; with equal features λ- = 0 and one direction never shrinks.",
)
def contraction_without_premise(key, *, n: Size = 20, steps: Count = 200):
    r"""Any step below 1/λ+ makes gradient descent a contraction.

    As printed: a contraction "occurs if $|1-2\eta\lambda_\pm|<1$, [...] i.e., if $\eta<1/\lambda_+$". With equal
    features $\lambda_-=0$, the factor is 1, and the distance between two runs does not shrink. Each run still
    converges, to a minimiser of its own. With features that are not all equal (a second instance) the distance goes to
    zero.
    """
    mean_key, x_key, start_key = jax.random.split(key, 3)
    start = jax.random.normal(start_key, (2,))
    equal_features = jnp.full(n, jax.random.normal(mean_key) + 2.0)
    varied = jax.random.normal(x_key, (n,))
    null = jnp.array([1.0, -equal_features[0]]) / jnp.hypot(1.0, equal_features[0])

    @jax.jit
    def run(x, start):
        step = 0.5 * critical_step(x)
        path = gradient_descent(lambda t: squared_gradient(t, x, 0 * x), start, step, steps)
        return path, jnp.linalg.norm(squared_gradient(path[-1], x, 0 * x)), step * moment_eigenvalues(x)[1]

    def apart(x):
        (one, *_), (two, slope, share) = run(x, start), run(x, start + null)
        distance = jnp.linalg.norm(one - two, axis=-1)
        return distance[1:] / distance[:-1], distance, slope, share

    factors, _, slope, share = apart(equal_features)
    yield at_most("the step, times λ+", share, 1.0)
    yield equal("gradient at the end of a run", slope, 0.0, atol=1e-12)
    _, shrinking, _, _ = apart(varied)
    yield at_most("features not all equal: distance after all steps over the first", shrinking[-1] / shrinking[0], 1e-3)
    # a contraction has one factor below 1 for all steps
    yield printed(at_most("equal features: factor of the distance per step", factors, 1 - 1e-9, rtol=0))


@claim(rows=("M02.09",))
def sufficient_step(key, *, sets: Size = 200, n: Size = 30, steps: Count = 100):
    r"""A step below 1/(mean of x² + 1) always converges.

    It is at most $1/\lambda_+$, and at least half of it: $\frac12\le\lambda_+/(\overline{x^2}+1)\le1$, with 1 for equal
    features and $\frac12$ for features of mean 0 and mean square 1. For the 100 features of Table 2.1 it is 0.1310
    against the critical 0.1404.
    """
    data_key, start_key = jax.random.split(key)
    x = _datasets(data_key, sets, n)
    start = jax.random.normal(start_key, (sets, 2))

    @jax.jit
    def measure(x, start):
        safe = jax.vmap(safe_step)(x)
        length = jax.vmap(lambda x, s, eta: _distances(x, s, eta, steps))(x, start, 0.999 * safe)
        twice = jax.vmap(lambda x, s, eta: _distances(x, s, eta, steps))(x, start, 2.002 * safe)
        return safe, jax.vmap(critical_step)(x), length, twice

    safe, critical, length, twice = measure(x, start)
    yield at_most("distance to the minimiser, step after step", length[:, 1:], length[:, :-1], along="iteration")
    yield at_most("safe step over critical step", safe / critical, 1.0)
    yield at_least("safe step over critical step, never below one half", safe / critical, 0.5)
    signs = jnp.array([-1.0, 1.0])
    yield equal("features -1 and 1: one half exactly", safe_step(signs) / critical_step(signs), 0.5)
    book = book_linear_surrogate().x
    yield equal("safe step of the book's features", safe_step(book), 0.1310, rtol=0, atol=5e-5)
    yield control(
        "2.002 times the safe step is above the critical one",
        at_most("distance to the minimiser, step after step", twice[:, 1:], twice[:, :-1], along="iteration"),
    )


@claim(rows=("M02.10",))
def book_runs(key, *, steps: Count = 400):
    r"""The two runs of Figures 2.5 and 2.6: the step 0.119 converges, 0.161 diverges.

    For the features behind Table 2.1, $1/\lambda_+=0.140$; the printed steps are 0.85 and 1.15 times that. The excess
    loss falls in the end by $(1-2\cdot0.119\,\lambda_-)^2=0.772$ a step in the first run and grows by
    $(1-2\cdot0.161\,\lambda_+)^2=1.673$ in the second. The start is not printed: any will do, the labels as well.
    """
    x, y = book_linear_surrogate()
    start = jax.random.normal(key, (2,)) + jnp.array([3.0, -3.0])

    @jax.jit
    def excess(eta):
        path = gradient_descent(lambda t: squared_gradient(t, x, y), start, eta, steps)
        # of a quadratic, from the distance to the minimiser: exact where the difference of two losses is rounding
        gap = path - ols_1d(x, y)
        return path, jnp.einsum("ki,ij,kj->k", gap, moment_matrix(x), gap)

    slow, down = excess(0.119)
    fast, up = excess(0.161)
    small, large = moment_eigenvalues(x)
    yield equal("eigenvalues λ- and λ+", jnp.stack([small, large]), jnp.array([0.509, 7.123]), rtol=0, atol=5e-4)
    late = slice(60, 90)
    factors = jnp.stack([(down[1:] / down[:-1])[late].mean(), (up[1:] / up[:-1])[late].mean()])
    yield equal("factor of the excess loss a step", factors, jnp.array([0.772, 1.673]), rtol=0, atol=1e-3)
    yield control(
        "0.161 is above the critical step",
        at_most(
            "excess loss", up[:80], up[0] * contraction_factor(x, 0.119) ** (2 * jnp.arange(80)), along="iteration"
        ),
    )
    yield contours(
        "paths on the level sets",
        lambda theta: squared_loss(theta, x, y),
        centre=ols_1d(x, y),
        radius=(3.0, 9.0),
        names=("w", "b"),
        paths={"η = 0.119": slow[:40], "η = 0.161": fast[:8]},
    )
