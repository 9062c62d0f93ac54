"""Minimisers of training losses: over a finite class, of least squares, and with a regulariser."""

from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np

from corollary.evidence import Count, Range, at_least, at_most, claim, control, equal, monotone
from corollary.foundations import Dataset, erm, erm_threshold, point_loss, regularised, ridge, training_loss
from corollary.linear import squared_error
from corollary.optimization import gradient_descent


@claim(rows=("T01.03",))
def empirical_risk_minimiser(
    key, *, n: Annotated[int, Range(40, 10_000)] = 60, noise: Annotated[int, Range(0, 10)] = 6
):
    r"""The empirical risk minimiser has the least training loss of its class, and need not be alone.

    For thresholds $h_c(x)=\mathbf 1\{x>c\}$ on $n$ points, the training loss takes one value between neighbouring
    points: one sort finds the best, and all $n+1$ candidates tried in turn find the same. Every $c$ between the same
    two points is a minimiser too.
    """
    x_key, flip_key = jax.random.split(key)

    @jax.jit
    def measure(x_key, flip_key):
        x = jnp.sort(jax.random.normal(x_key, (n,)))
        flips = jnp.zeros(n, bool).at[jax.random.permutation(flip_key, n)[: min(noise, n)]].set(True)
        y = ((x > 0) ^ flips).astype(int)
        cuts = jnp.append(x[0] - 1, x)
        middles = jnp.append((cuts[1:] + cuts[:-1]) / 2, cuts[-1] + 1)

        def loss(c, x, y):
            return (x > c) != (y == 1)

        data = Dataset(x, y)
        foreign = training_loss(loss, erm_threshold(x, 1 - y).at, data)
        return cuts, erm_threshold(x, y), erm(loss, cuts, data), erm(loss, middles, data), foreign

    cuts, fast, tried, between, foreign = jax.tree.map(np.asarray, measure(x_key, flip_key))
    yield equal("least training loss: by sorting, and by trying all", fast.loss, tried.loss, rtol=0, atol=1e-15)
    yield at_least("training loss of every threshold", tried.losses, fast.loss, x=cuts, along="threshold")
    yield equal("training loss between the points", between.losses, tried.losses, rtol=0, atol=1e-15)
    yield equal(
        "the first of the minimisers", tried.index, np.flatnonzero(tried.losses == tried.loss)[0], rtol=0, atol=0
    )
    yield at_least("minimisers in the class of points and middles", tried.attained.sum() + between.attained.sum(), 2)
    yield control(
        "the hypothesis minimises the loss on other labels",
        at_least("training loss of every threshold", tried.losses, foreign, x=cuts, along="threshold"),
    )


@claim(rows=("M01.08", "M01.11"))
def least_squares_by_minimisation(
    key, *, n: Annotated[int, Range(30, 1000)] = 50, d: Annotated[int, Range(2, 10)] = 5, steps: Count = 400
):
    r"""Least squares is empirical risk minimisation with the squared error, and the size of the data does not move it.

    The minimiser of $\frac1M\sum(y_m-\theta\cdot x_m)^2$ over $\theta$ is the least squares solution; that of the sum,
    without $\frac1M$, is the same. Gradient descent with $\eta=1/\lambda_{\max}(\nabla^2\Lambda)$ on either loss
    reaches it, at the rate $(1-\lambda_{\min}/\lambda_{\max})^k$.
    """
    loss = point_loss(lambda theta, x: theta @ x, squared_error)

    @jax.jit
    def measure(key):
        x_key, noise_key = jax.random.split(key)
        x = jax.random.normal(x_key, (n, d))
        y = x @ jnp.arange(1.0, d + 1) + jax.random.normal(noise_key, (n,))
        data = Dataset(x, y)
        spectrum = jnp.linalg.eigvalsh(2 * x.T @ x / n)

        def descend(scale, power):
            def objective(theta):
                average = training_loss(lambda t, a, b: loss(t, a, b) ** power, theta, data)
                return scale * average

            return gradient_descent(jax.grad(objective), jnp.zeros(d), 1 / (scale * spectrum[-1]), steps)

        solution = jnp.linalg.lstsq(x, y)[0]
        average, total = descend(1.0, 1), descend(float(n), 1)
        gaps = jnp.linalg.norm(average - solution, axis=1)
        # the absolute error in place of the square: another error function has another minimiser
        absolute = descend(1.0, 0.5)[-1]
        return solution, average[-1], total[-1], gaps, spectrum, ridge(x, y), absolute

    solution, average, total, gaps, spectrum, direct, absolute = (np.asarray(a) for a in measure(key))
    contraction = (1 - spectrum[0] / spectrum[-1]) ** np.arange(steps + 1)
    size = np.linalg.norm(solution)
    left = contraction[-1] * size + 1e-12 * size
    yield equal("closed form against the singular values", direct, solution, rtol=1e-10)
    yield equal("limit of descent on the average", average, solution, rtol=0, atol=left)
    yield equal("limit of descent on the sum", total, solution, rtol=0, atol=left)
    seen = contraction > 1e-9  # further on little but rounding is left
    bound = gaps[0] * contraction[seen]
    yield at_most("distance to the minimiser", gaps[seen], bound, atol=1e-13 * size, along="iteration")
    yield control(
        "the error is absolute, not squared", equal("limit of descent", absolute, solution, rtol=0, atol=left)
    )


@claim(rows=("T01.04",))
def regularisation_path(
    key,
    *,
    n: Annotated[int, Range(10, 1000)] = 40,
    d: Annotated[int, Range(2, 50)] = 8,
    strengths: Annotated[int, Range(2, 1000)] = 60,
):
    r"""A stronger regulariser trades training loss for size, monotonically.

    Let $h_\lambda$ minimise $\hat L+\lambda R$. Then $R(h_\lambda)$ does not increase and $\hat L(h_\lambda)$ does not
    decrease with $\lambda$. For $\hat L=\frac1{2n}\|Xw-y\|^2$ and $R=\frac12\|w\|^2$ the minimiser is
    $(X^\top X/n+\lambda I)^{-1}X^\top y/n$.
    """
    lambdas = np.geomspace(1e-4, 1e4, strengths)

    @jax.jit
    def measure(key):
        x_key, y_key = jax.random.split(key)
        x, y = jax.random.normal(x_key, (n, d)), jax.random.normal(y_key, (n,))

        def training(w):
            return jnp.sum((x @ w - y) ** 2) / (2 * n)

        def size(w):
            return jnp.sum(w**2) / 2

        def at(strength):
            w = ridge(x, y, strength)
            slope = jax.grad(regularised(training, size, strength))
            normal = jnp.linalg.solve(x.T @ x / n + strength * jnp.eye(d), x.T @ y / n)
            return size(w), training(w), slope(w), w, normal

        def with_other_labels(strength, key):
            return size(ridge(x, jax.random.normal(key, (n,)), strength))

        fresh = jax.vmap(with_other_labels)(lambdas, jax.random.split(y_key, strengths))
        return *jax.vmap(at)(lambdas), fresh

    sizes, losses, slope, path, normal, fresh = (np.asarray(a) for a in measure(key))
    logs = np.log10(lambdas)
    yield monotone("size of the minimiser", sizes, "decreasing", x=logs, along="log10 of λ")
    yield monotone("training loss of the minimiser", losses, x=logs, along="log10 of λ")
    # the terms of the gradient are of order one, and cancel to rounding
    yield equal("gradient of the regularised loss at the minimiser", slope, 0.0, atol=1e-12)
    yield equal("minimiser against the normal equations", path, normal, rtol=1e-10)
    yield control(
        "each λ has a training set of its own",
        monotone("size of the minimiser", fresh, "decreasing", x=logs, along="log10 of λ"),
    )
