"""Separable data: logistic regression runs off to infinity, and a ridge holds it back."""

import jax
import jax.numpy as jnp
import numpy as np

from corollary.data import book_perfect_data, book_perfect_table, logistic_data
from corollary.evidence import (
    Count,
    Size,
    at_least,
    at_most,
    claim,
    control,
    equal,
    estimate,
    monotone,
    printed,
    same_law,
)
from corollary.linear import (
    class_gap,
    fit_newton,
    limit_mean_gap,
    logistic_gradient,
    logistic_hessian,
    logistic_loss,
    min_abs_limit_mean,
    min_abs_limit_survival,
    min_abs_mean,
    min_abs_survival,
)
from corollary.optimization import gradient_descent


@claim(rows=("M03.17", "M03.18"))
def divergence(key, *, steps: Count = 10_000, n: Size = 60):
    r"""On separable data the logistic loss has no minimiser: slopes grow without end, and the threshold settles.

    If a threshold separates the classes, $\inf\Lambda=0$ is not attained; along gradient descent $|w|\to\infty$ and the
    loss falls to 0, and along the ridge path $C\to0$ the threshold $-b/w$ tends to the middle of the gap between the
    classes. For the 100 points behind Table 3.4 that is 0.0028047; the printed fit $w=252.95$, $b=-0.71$, a place where
    some solver stopped, has $-b/w=0.00281$.
    """
    x, y = book_perfect_data()
    table = book_perfect_table()
    yield equal("printed features", x[:5], table.x, rtol=0, atol=0.005)
    gap = class_gap(x, y)
    yield equal(
        "least positive and greatest negative feature",
        jnp.stack([gap.upper, gap.lower]),
        jnp.array([0.0297138, -0.0241045]),
        rtol=0,
        atol=5e-8,
    )
    # b is known to half a unit of its last digit
    yield equal(
        "middle of the gap: threshold of the printed fit", gap.midpoint, 0.71 / 252.95, rtol=0, atol=0.005 / 252.95
    )

    ridges = jnp.array([1e-2, 1e-5, 1e-8, 1e-11, 1e-14])
    random = jax.random.normal(key, (n,))

    @jax.jit
    def measure(x, y):
        path = gradient_descent(lambda t: logistic_gradient(t, x, y), jnp.zeros(2), 1.0, steps)
        loss = jax.vmap(lambda t: logistic_loss(t, x, y))(path[::100])
        fits = jax.vmap(lambda c: fit_newton(x, y, penalty=c).theta)(ridges)
        return path[::100, 0], loss, fits

    slope, loss, fits = measure(x, y)
    along = jnp.arange(slope.size) * 100
    yield monotone("slope along gradient descent", slope, "increasing", strict=True, x=along, along="iteration")
    yield monotone("loss along gradient descent", loss, "decreasing", strict=True, x=along, along="iteration")
    yield at_least("slope at the end of the ridge path", fits[-1, 0], 500.0)
    distance = jnp.abs(-fits[-1, 1] / fits[-1, 0] - gap.midpoint)
    yield at_most("threshold at the end to the middle of the gap, over half the gap", distance / (gap.width / 2), 1e-3)
    labels = (random > 0).astype(int)
    slope, loss, fits = measure(random, labels)
    yield monotone(
        "random data: slope along the ridge path", fits[:, 0], "increasing", strict=True, along="ridge, falling"
    )
    yield equal("random data: no minimiser is reported", fit_newton(random, labels).converged, 0, rtol=0, atol=0)
    flipped = labels.at[jnp.argmax(random)].set(0)
    yield equal("one label flipped: a minimiser is found", fit_newton(random, flipped).converged, 1, rtol=0, atol=0)
    yield control(
        "one label flipped", at_least("slope at the end of the ridge path", measure(random, flipped)[2][-1, 0], 500.0)
    )


def _minima(key, repetitions, n):
    """n times the least |X| of n standard normals, and n times the gap about 0, many times over."""

    def draw(key):
        x = jax.random.normal(key, (n,))
        right = jnp.min(x, where=x > 0, initial=jnp.inf)
        left = jnp.min(-x, where=x < 0, initial=jnp.inf)
        return n * jnp.minimum(left, right), n * (left + right)

    return jax.lax.map(draw, jax.random.split(key, repetitions), batch_size=256)


@claim(rows=("M03.19",), full={"repetitions": 40_000, "n": 10_000})
def smallest_feature(key, *, repetitions: Size = 4000, n: Size = 1000):
    r"""The least of N normal features in absolute value is exponential on the scale 1/N.

    For independent standard normals $P\{N\min_n|X_n|>\ell\}=(1-\operatorname{erf}\frac\ell{N\sqrt2})^N\to
    e^{-\sqrt{2/\pi}\,\ell}$: the rate is $\sqrt{2/\pi}=0.798$ and so the mean of $\min_n|X_n|$ is
    $\sqrt{\pi/2}/N=1.2533/N$. The gap between the classes $\{x>0\}$ and $\{x<0\}$, which is what a classifier has to
    resolve, has the mean $2\sqrt{2\pi}/N=5.013/N$ to leading order.
    """
    least, gap = jax.jit(_minima, static_argnums=(1, 2))(key, repetitions, n)
    rate = float(np.sqrt(2 / np.pi))

    def reciprocal(level):
        return 1 - np.exp(-level / rate)

    yield estimate("mean of N min|X|", least, n * min_abs_mean(n), wrong=rate)
    yield same_law("law of N min|X|, exact", least, lambda t: 1 - min_abs_survival(t, n), wrong=reciprocal)
    yield same_law("law of N min|X|, limit", least, lambda t: 1 - min_abs_limit_survival(t), wrong=reciprocal)
    yield equal("exact mean against its limit", min_abs_mean(n), min_abs_limit_mean(n), rtol=2 / n)
    yield estimate("mean of N times the gap", gap, n * limit_mean_gap(n), wrong=n * min_abs_limit_mean(n))
    uniform = n * jnp.abs(jax.random.uniform(key, (repetitions, 200), minval=-1.0)).min(1) * 200 / n
    yield control(
        "features uniform on (-1, 1) have another density at 0",
        same_law(
            "law of N min|X|", uniform, lambda t: 1 - min_abs_limit_survival(t), wrong=lambda t: 1 - np.exp(-9 * t)
        ),
    )


@claim(rows=("M03.19",), erratum="The mean of an exponential variable is taken to be its rate; it is the reciprocal.")
def printed_mean(key, *, repetitions: Size = 2000, n: Size = 500):
    r"""The least of N normal features in absolute value has mean 0.798/N.

    As printed: $\mathbb E\min_n|X_n|\approx\frac1N\frac2{\sqrt{2\pi}}$, as $N\to\infty$. The exact mean is off
    $\sqrt{\pi/2}/N$ by a relative $O(1/N)$, and off what is printed by more than a half, at all sizes.
    """
    least, _ = jax.jit(_minima, static_argnums=(1, 2))(key, repetitions, n)
    rate, mean = 2 / np.sqrt(2 * np.pi), np.sqrt(np.pi / 2)
    yield estimate("mean of N min|X|, its reciprocal rate", least, n * min_abs_mean(n), wrong=rate)
    yield printed(estimate("mean of N min|X|, its rate", least, rate, wrong=mean))
    sizes = 2 ** np.arange(5, 13)
    exact = np.array([float(size * min_abs_mean(int(size))) for size in sizes])
    along = {"x": np.log2(sizes), "along": "log2 of N"}
    # a limit with an error of the order 1/N leaves N times the relative difference bounded
    yield at_most("N times the relative difference from 1.2533/N", sizes * np.abs(exact / mean - 1), 2.0, **along)
    yield printed(
        at_most("N times the relative difference from 0.798/N", sizes * np.abs(exact / rate - 1), 2.0, **along)
    )


@claim(rows=("M03.20",))
def ridge(key, *, n: Size = 80):
    r"""A ridge makes the logistic optimum exist, be unique, and have norm at most sqrt(ln 2 / C).

    For $\Lambda^{(C)}(\theta)=\Lambda(\theta)+C\|\theta\|^2$ with $C>0$: $\Lambda^{(C)}$ is $2C$-strongly convex, and
    since $\Lambda^{(C)}(\hat\theta)\le\Lambda^{(C)}(0)=\ln2$, $\|\hat\theta(C)\|\le\sqrt{\ln2/C}$, separable data or
    not. As $C$ grows, $\|\hat\theta(C)\|$ does not grow and $\Lambda(\hat\theta(C))$ does not fall.
    """
    data_key, start_key = jax.random.split(key)
    x, noisy = logistic_data(jnp.array([2.0, 0.5]), n, key=data_key)
    labels = jnp.stack([(x > 0).astype(int), noisy, jnp.ones(n, int)])  # separable, not separable, one class
    strengths = jnp.logspace(-8, 2, 21)
    starts = jnp.stack([jnp.zeros(2), 5 * jax.random.normal(start_key, (2,))])

    @jax.jit
    def measure(y):
        def fit(c, start):
            return fit_newton(x, y, penalty=c, start=start).theta

        theta = jax.vmap(lambda c: jax.vmap(lambda s: fit(c, s))(starts))(strengths)
        loss = jax.vmap(lambda t: logistic_loss(t, x, y))(theta[:, 0])
        modulus = jax.vmap(lambda t, c: jnp.linalg.eigvalsh(logistic_hessian(t, x, c))[0])(theta[:, 0], strengths)
        free = gradient_descent(lambda t: logistic_gradient(t, x, y), jnp.zeros(2), 1.0, 20_000)[-1]
        return theta, jnp.linalg.norm(theta[:, 0], axis=-1), loss, modulus, jnp.linalg.norm(free)

    theta, norm, loss, modulus, free = jax.vmap(measure)(labels)
    scale = jnp.log10(strengths)
    yield at_most("norm of the optimum", norm, jnp.sqrt(jnp.log(2) / strengths), x=scale, along="log10 C")
    yield equal("optimum from two starts", theta[:, :, 1], theta[:, :, 0], rtol=1e-6, atol=1e-7)
    yield monotone("norm as C grows", norm, "decreasing", atol=1e-9, x=scale, along="log10 C")
    yield monotone("unpenalised loss as C grows", loss, "increasing", atol=1e-12, x=scale, along="log10 C")
    yield at_least("least curvature over 2C", modulus / (2 * strengths), 1.0)
    yield control(
        "without the ridge, separable data",
        at_most("norm after 20,000 steps of descent, C = 0.05", free[0], jnp.sqrt(jnp.log(2) / 0.05)),
    )
