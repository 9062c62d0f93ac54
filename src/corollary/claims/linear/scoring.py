"""Scoring the features: what it changes, and what it leaves as it was."""

import jax
import jax.numpy as jnp

from corollary.claims.linear._pictures import contours
from corollary.data import (
    book_logistic_features,
    book_logistic_surrogate,
    book_logistic_table,
    book_scored_table,
    logistic_data,
)
from corollary.evidence import Positive, Size, at_least, at_most, claim, control, equal, printed
from corollary.linear import (
    Standardiser,
    fit_newton,
    logistic_function,
    logistic_gradient,
    logistic_hessian,
    logistic_loss,
    logistic_smoothness,
    theta_in_scores,
)


@claim(rows=("M03.14",))
def table_of_scores(key, *, n: Size = 60):
    r"""Scored features have mean 0 and variance 1, and Table 3.2 is Table 3.1 scored with the plain deviation.

    $u=(x-\mu)/\sigma$ with the statistics of the training data; variance 1 under the same convention (division by $n$
    or $n-1$) that defined $\sigma$. For the 50 features of Table 3.1, $\mu=7.04$, $\sigma=2.30$ with $n-1$, 2.2745
    with $n$, and the printed scores are those of the latter.
    """
    x = 3 + 5 * jax.random.normal(key, (n, 2))
    for ddof in (0, 1):
        scored = Standardiser.fit(x, ddof).transform(x)
        yield equal(
            f"mean and variance, division by n - {ddof}",
            jnp.stack([scored.mean(0), scored.var(0, ddof=ddof)]),
            jnp.array([[0.0] * 2, [1.0] * 2]),
            atol=1e-13,
        )
    features = book_logistic_features()
    bessel, plain = Standardiser.fit(features, 1), Standardiser.fit(features, 0)
    yield equal(
        "printed mean and deviation",
        jnp.stack([bessel.mean, bessel.scale]),
        jnp.array([7.04, 2.30]),
        rtol=0,
        atol=0.005,
    )
    yield equal(
        "printed scores, deviation with n", plain.transform(features[:5]), book_scored_table().x, rtol=0, atol=0.005
    )
    yield control(
        "the statistics are those of other data than the scored ones",
        equal(
            "mean and variance",
            jnp.stack([m := bessel.transform(features[:25]).mean(), m * 0 + 1]),
            jnp.array([0.0, 1.0]),
            atol=1e-13,
        ),
    )


@claim(
    rows=("M03.14",),
    erratum="Table 3.2 is said to use the deviation 2.30 (division by n - 1), but was made with 2.2745 (by n).",
)
def printed_scores(key):
    r"""The scores of Table 3.2 are (x - 7.04)/2.30.

    As printed in (3.14) and the definition above it, with Bessel's correction. The fourth row would be 3.20, not 3.24.
    The printed scores are those of the deviation 2.2745, without the correction.
    """
    bessel, plain = (
        Standardiser.fit(book_logistic_features(), ddof).transform(book_logistic_table().x) for ddof in (1, 0)
    )
    # half a unit of the last printed digit of the score, and of the feature divided by the deviation
    digits = 0.005 + 0.005 / 2.27
    yield equal("scores of Table 3.2: division by n", plain, book_scored_table().x, rtol=0, atol=digits)
    yield printed(equal("scores of Table 3.2: division by n - 1", bessel, book_scored_table().x, rtol=0, atol=digits))


@claim(rows=("M03.15",))
def equivariance(key, *, n: Size = 150, sets: Size = 8, ridge: Positive = 0.1):
    r"""An affine change of the features moves the optimum along and leaves the fitted probabilities alone.

    If $x=\sigma u+\mu$, the unpenalised optimum in $u$ is $w_u=w\sigma$, $b_u=b+w\mu$. A ridge on the parameters
    breaks this, because it does not change with the features. Of Table 3.3, $w=2.22$, $b=-15.49$ become $w=5.06$,
    $b=0.17$ with $\sigma=2.2745$, within the rounding of the printed digits.
    """

    @jax.jit
    def measure(key):
        x, y = logistic_data(jnp.array([1.0, -2.0, 0.5]), n, key=key, law="normal")
        x = x * jnp.array([3.0, 0.2]) + jnp.array([10.0, -1.0])
        score = Standardiser.fit(x)
        u = score.transform(x)
        raw, scored = fit_newton(x, y), fit_newton(u, y)
        soft, soft_scored = fit_newton(x, y, penalty=ridge), fit_newton(u, y, penalty=ridge)
        moved = theta_in_scores(raw.theta, score.mean, score.scale)
        soft_moved = theta_in_scores(soft.theta, score.mean, score.scale)
        gap = logistic_function(x @ raw.theta[:-1] + raw.theta[-1]) - logistic_function(
            u @ scored.theta[:-1] + scored.theta[-1]
        )
        return scored.theta, moved, gap, soft_scored.theta, soft_moved, raw.converged & scored.converged

    scored, moved, gap, soft, soft_moved, converged = jax.vmap(measure)(jax.random.split(key, sets))
    yield equal("fits converged", converged.sum(), sets, rtol=0, atol=0)
    yield equal("optimum for scored features", scored, moved, rtol=1e-7, atol=1e-7)
    yield equal("fitted probabilities", gap, 0.0, atol=1e-8)
    x_c, w = 6.9689, jnp.array([15.485, 15.495]) / 6.9689
    sigma, mu = book_logistic_features().std(), book_logistic_features().mean()
    ends = jnp.stack([w * sigma, w * (mu - x_c)], 1)
    yield at_least("Table 3.3, upper ends that the digits allow", ends[1], jnp.array([5.06, 0.17]) - 0.005)
    yield at_most("Table 3.3, lower ends that the digits allow", ends[0], jnp.array([5.06, 0.17]) + 0.005)
    yield control(
        "there is a ridge, which penalises the coordinates themselves",
        equal("optimum for scored features", soft, soft_moved, rtol=1e-3, atol=1e-3),
    )


@claim(
    rows=("M03.15",),
    erratum="Table 3.3 is said to confirm w_z = w σ with σ = 2.30, which would be 5.11; 5.06 needs σ = 2.2745.",
)
def printed_scaling(key):
    r"""The scored slope 5.06 of Table 3.3 is the original slope 2.22 times the printed deviation 2.30.

    As printed: $w_z^*=w_o^*\sigma$, "the combination of (3.14) and Table 3.3 confirm this". The slope is known to half
    a unit of its last digit: times the deviation by division by $n-1$, of which (3.14) prints two decimals, it is at
    least $2.215\cdot2.2976=5.089$. With the deviation 2.2745, by division by $n$, the digits of 5.06 are among those
    that 2.22 allows.
    """
    features = book_logistic_features()
    lowest, highest = 2.22 - 0.005, 2.22 + 0.005
    bessel, plain = features.std(ddof=1), features.std()
    yield equal("deviation by division by n - 1, printed as 2.30", bessel, 2.30, rtol=0, atol=0.005)
    yield at_most("least scored slope, division by n", lowest * plain, 5.06 + 0.005, rtol=0)
    yield at_least("greatest scored slope, division by n", highest * plain, 5.06 - 0.005, rtol=0)
    yield printed(at_most("least scored slope, division by n - 1", lowest * bessel, 5.06 + 0.005, rtol=0))


@claim(rows=("M03.16",))
def conditioning(key, *, target: Positive = 1e-6):
    r"""Scoring makes the level curves of the logistic loss rounder, and gradient descent faster.

    For the features behind Table 3.1 with surrogate labels: the condition number of the Hessian at the optimum falls
    from some thousands to about ten, and the number of steps (each run with its own $\eta=1/L$) to an excess loss of
    $10^{-6}$ falls by more than a factor of 50.
    """
    x, y = book_logistic_surrogate()
    u = Standardiser.fit(x).transform(x)

    @jax.jit
    def condition(x):
        fit = fit_newton(x, y)
        spectrum = jnp.linalg.eigvalsh(logistic_hessian(fit.theta, x))
        return fit, spectrum[1] / spectrum[0]

    @jax.jit
    def steps_to_target(x, lowest):
        eta = 1 / logistic_smoothness(x)

        def going(state):
            k, theta = state
            return (logistic_loss(theta, x, y) - lowest > target) & (k < 2_000_000)

        def advance(state):
            k, theta = state
            return k + 1, theta - eta * logistic_gradient(theta, x, y)

        return jax.lax.while_loop(going, advance, (0, jnp.zeros(2)))[0]

    fit, raw = condition(x)
    scored_fit, scored = condition(u)
    slow, fast = steps_to_target(x, fit.loss), steps_to_target(u, scored_fit.loss)
    yield at_least("condition number, raw over scored", raw / scored, 100.0)
    yield at_least("steps of gradient descent, raw over scored", slow / fast, 50.0)
    yield at_most("condition number, scored", scored, 20.0)
    shifted = Standardiser.fit(x).transform(x) + 20.0
    yield control(
        "the features have scale 1, but not mean 0",
        at_least("condition number, raw over shifted", raw / condition(shifted)[1], 100.0),
    )
    for name, features, centre, radius in (
        ("raw", x, fit.theta, (3.0, 18.0)),
        ("scored", u, scored_fit.theta, (6.0, 6.0)),
    ):
        yield contours(
            f"loss over (w, b), {name} features",
            lambda t, f=features: logistic_loss(t, f, y),
            centre=centre,
            radius=radius,
            names=("w", "b"),
        )
