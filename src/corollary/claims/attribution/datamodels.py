"""Datamodels: the best linear function of a random subset, by enumeration and by thousands of trainings."""

import math

import jax
import jax.numpy as jnp
import numpy as np

from corollary.attribution import SubsetOutputs, biased_fourier, datamodel, fit_datamodel, subset_outputs
from corollary.evidence import Probability, Size, at_least, claim, control, equal

PARITY = (0, 1, 2)


def _law(cube, p):
    """The probability of every subset when points are in independently."""
    return jnp.prod(jnp.where(cube > 0, p, 1 - p), 1)


def _regression(cube, f, law):
    """Weights of least squares under a law on the subsets, and what they leave over."""
    design = jnp.concatenate([jnp.ones((cube.shape[0], 1)), cube], 1)
    theta = jnp.linalg.lstsq(design * jnp.sqrt(law)[:, None], f * jnp.sqrt(law))[0]
    return theta[1:], jnp.sum(law * (f - design @ theta) ** 2)


def _derivatives(cube, f, law):
    """Half the mean of f with each point minus f without it, other points as the law has them."""
    n = cube.shape[1]
    index = jnp.arange(2**n)
    bit = 2 ** jnp.arange(n - 1, -1, -1)
    return jnp.stack([law @ (f[index | b] - f[index & ~b]) / 2 for b in bit])


@claim(rows=("T10.20",))
def harmonic_analysis(key, *, points: Size = 6, p: Probability = 0.3):
    r"""The weights of a datamodel are mean discrete derivatives, and what it leaves over is the higher Fourier weight.

    Let each of $n$ points be in the training set independently with probability $p$, $x_i=\pm1$, and $f$ any function
    of the subset. The best linear function $\theta_0+\sum\theta_ix_i$ in mean square has
    $\theta_i=\frac12\mathbb E[f(x_{i\to1})-f(x_{i\to-1})]$, and
    $\mathbb E(f-\theta_0-\sum_i\theta_ix_i)^2=\sum_{|S|\ge2}\hat f_p(S)^2$, in the orthonormal basis of products of
    $\frac{x_i-\mu}\sigma$, $\mu=2p-1$, $\sigma=2\sqrt{p(1-p)}$. $\theta$ depends on $p$ unless $f$ is linear, and
    $\int_0^12\theta_i(p)\,dp$ is the Shapley value of $i$ in the game $f$. Of the parity of three points a linear
    function explains nothing for $p=\frac12$. With subsets of a fixed size, whose points are not independent, the first
    identity fails.
    """
    cube = 2.0 * (np.arange(2**points)[:, None] // 2 ** np.arange(points - 1, -1, -1) % 2) - 1
    nodes, weights = np.polynomial.legendre.leggauss(points)
    nodes, weights = (nodes + 1) / 2, weights / 2  # exact for the polynomial θ(p), of degree n - 1
    sizes = (cube > 0).sum(1)

    @jax.jit
    def measure(key):
        f = jax.random.normal(key, (2**points,))
        table = f.reshape((2,) * points)
        law = _law(cube, p)
        theta, left = _regression(cube, f, law)
        fourier = biased_fourier(table, p)
        integral = jnp.tensordot(weights, jax.vmap(lambda q: 2 * biased_fourier(table, q).weights)(nodes), 1)
        index, bit = jnp.arange(2**points), 2 ** jnp.arange(points - 1, -1, -1)
        factor = jnp.array([math.factorial(k) * math.factorial(points - k - 1) for k in range(points)])
        without = jnp.append(factor, 0.0)[sizes] / math.factorial(points)
        shapley = jnp.stack([jnp.sum(jnp.where(index & b, 0, without * (f[index | b] - f[index & ~b]))) for b in bit])
        linear = biased_fourier((1 + cube @ jnp.arange(1.0, points + 1)).reshape((2,) * points), p)
        parity = biased_fourier(jnp.prod(cube[:, PARITY], 1).reshape((2,) * points), 0.5)
        # exactly half of the points
        fixed = (sizes == points // 2) / math.comb(points, points // 2)
        return {
            "weights": (theta, _derivatives(cube, f, law), fourier.weights),
            "left": (left, fourier.by_degree[2:].sum()),
            "square": (jnp.sum(law * f**2), fourier.by_degree.sum()),
            "integral": (integral, shapley),
            "linear": linear.weights,
            "parity": parity.by_degree,
            "apart": jnp.abs(biased_fourier(table, 1 - p).weights - fourier.weights).max(),
            "fixed": (_regression(cube, f, fixed)[0], _derivatives(cube, f, fixed)),
        }

    found = measure(key)
    theta, derivatives, coefficients = found["weights"]
    yield equal("weights of the regression: half the mean derivatives", theta, derivatives, atol=1e-12)
    yield equal("weights of the regression: Fourier coefficients", theta, coefficients, atol=1e-12)
    yield equal("mean square left over: weight of degrees 2 and more", *found["left"])
    yield equal("mean square: weight of all degrees", *found["square"])
    yield equal("integral of twice the weights over p: Shapley value", *found["integral"], atol=1e-13)
    yield equal("weights of a linear function", found["linear"], np.arange(1.0, points + 1))
    only = np.arange(points + 1) == len(PARITY)
    yield equal("weights by degree of a parity, p = 1/2: nothing linear", found["parity"], only)
    yield at_least("weights at p and at 1 - p apart", found["apart"], 1e-3)
    yield control(
        "independent points: here exactly half of them", equal("weights: half the mean derivatives", *found["fixed"])
    )


def _ridge_logistic(train, weights):
    """Logistic regression on the points that are there, with a penalty."""
    x, y = train
    n, d = x.shape

    def step(w, _):
        p = jax.nn.sigmoid(x @ w)
        curvature = (x.T * (weights * p * (1 - p))) @ x / n + 0.02 * jnp.eye(d)
        return w - jnp.linalg.solve(curvature, x.T @ (weights * (p - y)) / n + 0.02 * w), None

    return jax.lax.scan(step, jnp.zeros(d), length=8)[0]


@claim(rows=("T10.18", "T10.19"))
def trainings_are_nearly_linear(key, *, n: Size = 40, dim: Size = 3, models: Size = 400):
    r"""The margin of a test point after training is nearly a linear function of which training points were there.

    Logistic regression on random subsets, each point in with probability $p=0.2$, $0.5$, $0.8$; $f$ is the margin of
    one test point. A linear fit to hundreds of trainings explains more than 0.8 of the variance of trainings that it
    has not seen; $2\theta_i$ agrees with the mean effect of adding point $i$ to other random subsets, with a
    correlation above 0.9; and $\theta$ depends on $p$. Of a measure that is the parity of three points' presence it
    explains nothing.
    """
    shares = (0.2, 0.5, 0.8)

    @jax.jit
    def measure(key):
        x_key, y_key, w_key, z_key, *keys = jax.random.split(key, 4 + 2 * len(shares))
        x, z = jax.random.normal(x_key, (n, dim)), jax.random.normal(z_key, (dim,))
        y = jax.random.bernoulli(y_key, jax.nn.sigmoid(x @ jax.random.normal(w_key, (dim,)))).astype(float)
        margin = lambda w: w @ z  # noqa: E731

        def effects(key, share):
            """With each point minus without it, over subsets that the fit has not seen."""
            present = jax.random.bernoulli(key, share, (64, n)).astype(float)

            def one(row):
                put = lambda value: jax.vmap(lambda i: margin(_ridge_logistic((x, y), row.at[i].set(value))))  # noqa: E731
                return put(1.0)(jnp.arange(n)) - put(0.0)(jnp.arange(n))

            return jax.lax.map(one, present).mean(0)

        found = [
            datamodel(_ridge_logistic, margin, (x, y), share=s, models=models, key=k)
            for s, k in zip(shares, keys[:3], strict=True)
        ]
        mean = [effects(k, s) for s, k in zip(shares, keys[3:], strict=True)]
        subsets = subset_outputs(
            lambda data, w: w, lambda w: w[0], (x, y), share=0.5, models=models, key=keys[0]
        ).subsets
        parity = fit_datamodel(SubsetOutputs(subsets, jnp.prod(subsets[:, PARITY], 1)), share=0.5)
        return jnp.stack([m.r2 for m in found]), jnp.stack([m.weights for m in found]), jnp.stack(mean), parity.r2

    r2, theta, mean, parity = map(np.asarray, measure(key))
    agree = np.array([np.corrcoef(t, m)[0, 1] for t, m in zip(theta, mean, strict=True)])
    yield at_least("share of the variance that is explained", r2, 0.8, x=shares, along="p")
    yield at_least("correlation with mean effects", agree, 0.9, x=shares, along="p")
    yield at_least(
        "weights at 0.2 and 0.8 apart, relative", np.linalg.norm(theta[0] - theta[2]) / np.linalg.norm(theta[1]), 0.1
    )
    yield control("an output of training: here a parity", at_least("share that is explained", parity, 0.8))
