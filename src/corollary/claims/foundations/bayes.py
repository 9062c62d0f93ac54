"""The best predictor: conditional expectation for the squared error, the vote for the error rate."""

from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np

from corollary.evidence import Range, Size, at_least, claim, control, equal
from corollary.foundations import (
    bayes_classifier,
    bayes_error,
    conditional_mean,
    error_probability,
    mean_squared_error,
)
from corollary.linear import vote


@claim(rows=("M01.17", "M01.18"))
def conditional_expectation(
    key, *, features: Annotated[int, Range(3, 50)] = 6, labels: Annotated[int, Range(2, 50)] = 5, tests: Size = 100
):
    r"""The conditional expectation is the orthogonal projection on the functions of X, hence the best predictor.

    Let $E[Y^2]<\infty$ and $m_{opt}(X)=E[Y|X]$. Then $E[(Y-m_{opt}(X))\,G(X)]=0$ for every bounded $G$, and for every
    square-integrable $g$
    $$E[(Y-g(X))^2]=E[(Y-m_{opt}(X))^2]+E[(m_{opt}(X)-g(X))^2].$$
    The first term is the Bayes error $E[\mathrm{Var}(Y|X)]$: no predictor does better. The best linear predictor is a
    projection too, but only on linear functions.
    """

    @jax.jit
    def measure(key):
        mass_key, value_key, test_key = jax.random.split(key, 3)
        joint = jax.random.exponential(mass_key, (features, labels))
        values = jax.random.normal(value_key, (labels,))
        x = jnp.arange(1.0, features + 1)
        # the label also depends on the square of the feature, which no line follows
        joint = joint * jnp.exp(values * (x[:, None] / features) ** 2)
        joint = joint / joint.sum()
        optimal = conditional_mean(joint, values)
        g = jax.random.normal(test_key, (tests, features))
        p = joint.sum(1)

        def against(predictor):
            return jnp.einsum("xy,xy,tx->t", joint, values - predictor[:, None], g)

        mean_x, mean_y = p @ x, joint.sum(0) @ values
        slope = (p * (x - mean_x)) @ (optimal - mean_y) / (p @ (x - mean_x) ** 2)
        line = mean_y + slope * (x - mean_x)
        errors = jax.vmap(lambda h: mean_squared_error(joint, values, h))(g)
        distances = jnp.sum(p * (optimal - g) ** 2, 1)
        least = bayes_error(joint, values)
        variances = joint @ values**2 / p - optimal**2
        off_line = jnp.sum(joint * (values - line[:, None]) * jnp.stack([x, x**2])[:, :, None], (1, 2))
        return against(optimal), errors, least + distances, least, p @ variances, off_line

    orthogonal, errors, pythagoras, least, variance, off_line = (np.asarray(a) for a in measure(key))
    yield equal("residual against random functions of X", orthogonal, 0.0, atol=1e-13)
    yield equal("mean squared error: Bayes error plus distance", errors, pythagoras, rtol=1e-12)
    yield at_least("mean squared error of random predictors, above the Bayes error", errors, least)
    yield equal("Bayes error: mean of the conditional variance", least, variance, rtol=1e-11)
    yield equal("best line: its residual against x", off_line[0], 0.0, atol=1e-12 * features**2)
    yield control(
        "the predictor is the best line, not the conditional expectation",
        equal("its residual against x squared", off_line[1], 0.0, atol=1e-12 * features**2),
    )


@claim(rows=("M01.17",))
def correlated_normals(
    key, *, correlation: Annotated[float, Range(0.05, 0.95)] = 0.8, side: Annotated[int, Range(121, 801)] = 161
):
    r"""For two correlated standard normal variables the best prediction is the correlation times X.

    $E[Y|X=x]=\rho x$ and the Bayes error is $1-\rho^2$. Measured on a grid of the plane, where sums of smooth functions
    that fall off quickly are integrals to rounding.
    """
    grid = np.linspace(-10, 10, side)

    @jax.jit
    def measure(x):
        exponent = (x[:, None] ** 2 - 2 * correlation * x[:, None] * x + x**2) / (2 * (1 - correlation**2))
        joint = jnp.exp(-exponent)
        joint = joint / joint.sum()
        # left of zero the rows are mirrored: Y goes with |X|, and both are standard normal as before
        bent = jnp.where(x[:, None] < 0, joint[:, ::-1], joint)
        return conditional_mean(joint, x), bayes_error(joint, x), conditional_mean(bent, x)

    mean, least, bent = (np.asarray(a) for a in measure(grid))
    # within 4 the edge of the grid is at least 9 conditional standard deviations away: less than 1e-18 of the mass
    inner = np.abs(grid) < 4
    line = correlation * grid[inner]
    yield equal("conditional mean", mean[inner], line, rtol=0, atol=1e-12, x=grid[inner], along="x")
    yield equal("Bayes error", least, 1 - correlation**2, rtol=1e-12)
    yield control("both are normal, but not jointly", equal("conditional mean", bent[inner], line, rtol=0, atol=1e-12))


@claim(rows=("M01.14",))
def vote_at_one_half(key, *, features: Annotated[int, Range(4, 12)] = 8):
    r"""With the true probabilities, no classifier errs less often than the vote at 1/2.

    The rule "1 where $P\{Y=1|x\}>\frac12$, else 0" has the least probability of error among all $2^K$ rules on $K$
    features. On a tie both labels are as good. With other probabilities than the true ones the vote loses wherever they
    lie on the other side of $\frac12$.
    """

    @jax.jit
    def measure(key):
        mass_key, jitter_key = jax.random.split(key)
        mass = jax.random.exponential(mass_key, (features,))
        mass = mass / mass.sum()
        # one probability in every part of (0, 1), and one tie
        p = (jnp.arange(features) + jax.random.uniform(jitter_key, (features,), minval=0.2, maxval=0.8)) / features
        p = p.at[features // 2].set(0.5)
        joint = jnp.stack([mass * (1 - p), mass * p], 1)
        rules = jnp.arange(2**features)[:, None] >> jnp.arange(features) & 1
        chosen = vote(p)
        errors = jax.vmap(lambda r: error_probability(joint, r))(rules)
        tied = error_probability(joint, chosen.at[features // 2].set(1))
        low = error_probability(joint, vote(jnp.cbrt(p)))
        return (
            errors,
            error_probability(joint, chosen),
            tied,
            low,
            chosen,
            bayes_classifier(joint),
            mass @ jnp.minimum(p, 1 - p),
        )

    errors, voted, tied, low, chosen, bayes, formula = (np.asarray(a) for a in measure(key))
    yield at_least("error probability of every rule, above that of the vote", errors, voted, rtol=1e-12)
    yield equal("error probability of the vote", voted, formula, rtol=1e-12)
    yield equal("error with the tie decided the other way", tied, voted, rtol=1e-12)
    yield equal("the vote and the most probable label", chosen, bayes, rtol=0, atol=0)
    yield control(
        "the vote is on other probabilities than the true ones",
        at_least("error probability of every rule, above that of the vote", errors, low, rtol=1e-12),
    )
