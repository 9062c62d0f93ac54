"""Mass and density, the expectation from the tail, and Gaussians under affine maps."""

import altair as alt
import jax
import jax.numpy as jnp
import numpy as np

from corollary.evidence import Count, Size, at_least, claim, control, equal, estimate, picture, same_law
from corollary.foundations import Continuous, Discrete, Gaussian, expectation_from_tail


@claim(rows=("B01.28",))
def mass_and_density(key, *, points: Size = 50):
    r"""A discrete variable has a mass at points, a continuous one a density and no mass at any point.

    Discrete (a die): $p_i\ge0$, $\sum p_i=1$, $\Pr(A)=\sum_{x\in A}p_x$, $\mathbb EX=\sum x_ip_i=3.5$. Continuous
    (uniform on $[0,1]$, and here also $12x^2(1-x)$): $f\ge0$, $\int f=1$, $\Pr(a\le X\le b)=\int_a^bf$,
    $F(x)=\int_{-\infty}^xf$, $F'=f$ where $f$ is continuous, $\Pr(X=x)=0$, $\mathbb EX=\int xf$. The distribution
    function of a die is flat almost everywhere: it is not the integral of its derivative.
    """
    x = jnp.sort(jax.random.uniform(key, (points,), minval=0.01, maxval=0.99))
    die = Discrete(jnp.arange(1.0, 7.0), jnp.full(6, 1 / 6))
    uniform = Continuous(lambda x: jnp.ones_like(x), 0.0, 1.0)
    bump = Continuous(lambda x: 12 * x**2 * (1 - x), 0.0, 1.0)

    @jax.jit
    def measure(x):
        return {
            "masses": die.pmf(jnp.arange(1.0, 7.0)),
            "odd": die.pmf(1.0) + die.pmf(3.0) + die.pmf(5.0),
            "die": jnp.stack(
                [die.probability(-10.0, 10.0), die.probability(2.0, 4.0), die.cdf(3.5), die.expectation()]
            ),
            "uniform": jnp.stack(
                [uniform.probability(-5.0, 5.0), uniform.probability(0.2, 0.5), uniform.expectation()]
            ),
            "outside": uniform.pdf(jnp.array([-0.5, 1.5])),
            "cdf": jax.vmap(bump.cdf)(x),
            "slope": jax.vmap(jax.grad(bump.cdf))(x),
            "density": bump.pdf(x),
            "moments": jnp.stack([bump.expectation(lambda x, k=k: x**k) for k in range(4)]),
            "points": jax.vmap(lambda x: bump.probability(x, x))(x),
            "die slope": jax.vmap(jax.grad(die.cdf))(jnp.linspace(0.05, 6.95, 70)),
        }

    m = measure(x)
    yield equal("die: mass of each face", m["masses"], 1 / 6)
    yield equal("die: all, two to four, at most 3.5, mean", m["die"], jnp.array([1.0, 0.5, 0.5, 3.5]))
    yield equal("die: odd faces", m["odd"], 0.5)
    yield equal("uniform: all, from 0.2 to 0.5, mean", m["uniform"], jnp.array([1.0, 0.3, 0.5]))
    yield equal("uniform: density outside", m["outside"], 0.0, atol=0)
    yield equal("bump: distribution function", m["cdf"], 4 * x**3 - 3 * x**4, x=x, along="x")
    yield equal("bump: its derivative is the density", m["slope"], m["density"], x=x, along="x")
    # E X^k = 12/((k + 3)(k + 4))
    k = jnp.arange(4)
    yield equal("bump: moments", m["moments"], 12 / ((k + 3) * (k + 4)))
    yield equal("bump: probability of a point", m["points"], 0.0, atol=0)
    yield at_least("die: some point has positive probability", m["masses"].max(), 0.1)
    yield control("a die has no density", equal("integral of the derivative of F", jnp.mean(m["die slope"]) * 7, 1.0))


@claim(rows=("B01.29",))
def tail_integral(key, *, samples: Size = 200):
    r"""The mean of a non-negative variable is the integral of its tail.

    If $X\ge0$, $\mathbb EX=\int_0^\infty\Pr(X\ge t)\,dt$: for exponential, gamma, Pareto and Poisson laws, and for the
    empirical law of any sample. For a variable with negative values the integral is the mean of the positive part
    alone: $\frac1{\sqrt{2\pi}}$ for a standard normal, whose mean is 0.
    """
    x = jnp.sort(jax.random.gamma(key, 0.7, (samples,)) * 3)
    rate = 0.4
    masses = 4.0 ** np.arange(60) * np.exp(-4.0) / np.cumprod(np.maximum(np.arange(60.0), 1))
    tails = jnp.asarray(np.cumsum(masses[::-1])[::-1])

    @jax.jit
    def measure(x):
        def pareto(t):
            return jnp.where(t < 1, 1.0, jnp.maximum(t, 1.0) ** -3)

        def poisson(t):
            # beyond 59 the law of mean 4 has a mass of less than 1e-45
            return jnp.where(t > 59, 0.0, tails[jnp.ceil(jnp.minimum(t, 59.0)).astype(int)])

        return {
            "laws": jnp.stack(
                [
                    expectation_from_tail(lambda t: jnp.exp(-rate * t)),
                    expectation_from_tail(lambda t: (1 + t + t**2 / 2) * jnp.exp(-t)),
                    expectation_from_tail(pareto, [1.0]),
                    expectation_from_tail(poisson, jnp.arange(60.0)),
                ]
            ),
            "sample": expectation_from_tail(lambda t: jnp.mean((x >= t).astype(x.dtype)), x),
            "normal": expectation_from_tail(lambda t: jax.scipy.stats.norm.sf(t)),
        }

    m = measure(x)
    # the quadrature is exponentially accurate, and exact on the steps of the Poisson law
    yield equal("exponential, gamma, Pareto, Poisson", m["laws"], jnp.array([1 / rate, 3.0, 1.5, 4.0]))
    yield equal("a sample and its own tail", m["sample"], jnp.mean(x))
    yield equal("normal: the mean of the positive part", m["normal"], 1 / np.sqrt(2 * np.pi), rtol=1e-8)
    yield control("a normal variable is not non-negative", equal("mean of a normal variable", m["normal"], 0.0))
    t = np.linspace(0, float(x[-1]), 120)
    rows = [{"t": float(a), "P": float(np.mean(np.asarray(x) >= a))} for a in t]
    chart = alt.Chart(alt.Data(values=rows)).mark_area(opacity=0.4, line=True, interpolate="step-before")
    chart = chart.encode(alt.X("t:Q"), alt.Y("P:Q", title="share of the sample ≥ t"))
    yield picture(
        f"the area under the tail is the mean, {float(jnp.mean(x)):.3f}", chart.properties(width=300, height=190)
    )


def _law(key, dim):
    """A law on the line or in the plane, with a covariance whose eigenvalues lie between 1/2 and 2."""
    mean_key, turn_key, size_key = jax.random.split(key, 3)
    c, s = jnp.cos(angle := jax.random.uniform(turn_key, maxval=jnp.pi)), jnp.sin(angle)
    turn = jnp.array([[c, -s], [s, c]])[:dim, :dim] if dim > 1 else jnp.eye(1)
    sizes = jax.random.uniform(size_key, (dim,), minval=0.5, maxval=2.0)
    return Gaussian(jax.random.normal(mean_key, (dim,)), (turn * sizes) @ turn.T)


@claim(rows=("B01.35",))
def gaussian_moments(key, *, points: Size = 61):
    r"""The parameters of the Gaussian density are its mean and its covariance.

    $(2\pi)^{-k/2}\det(\Sigma)^{-1/2}\exp(-\frac12(x-\mu)^\top\Sigma^{-1}(x-\mu))$ has the integral 1, mean $\mu$ and
    covariance $\Sigma$; in one dimension, $\frac1{\sqrt{2\pi\sigma^2}}e^{-(x-\mu)^2/2\sigma^2}$ has mean $\mu$ and
    variance $\sigma^2$. The exercise writes $\mathcal N(\mu,\sigma)$ with the standard deviation there.
    """
    one_key, two_key = jax.random.split(key)

    @jax.jit
    def measure(keys):
        out = []
        for dim, k in enumerate(keys, 1):
            law = _law(k, dim)
            # a plain sum over a grid: for a Gaussian of width 0.7 or more and this spacing it is exact to e^-100
            axis = jnp.linspace(-10, 10, points)
            grid = jnp.stack([g.ravel() for g in jnp.meshgrid(*[axis] * dim)], -1) + law.mean.round()
            weight = jax.vmap(law.density)(grid) * (axis[1] - axis[0]) ** dim
            mean = weight @ grid
            spread = (grid - mean).T @ (weight[:, None] * (grid - mean))
            out.append((weight.sum(), mean, spread, law.mean, law.covariance))
        return out

    @jax.jit
    def logistic_variance(key):
        law = _law(key, 1)
        x, scale = jnp.linspace(-60, 60, 20 * points), jnp.sqrt(law.covariance[0, 0])
        weight = jax.scipy.stats.logistic.pdf(x / scale)
        return weight @ x**2 / weight.sum(), law.covariance[0, 0]

    for name, (total, mean, spread, mu, sigma) in zip(
        ("one dimension", "two dimensions"), measure((one_key, two_key)), strict=True
    ):
        yield equal(f"{name}: integral", total, 1.0)
        yield equal(f"{name}: mean", mean, mu)
        yield equal(f"{name}: covariance", spread, sigma)
    yield control(
        "the density is logistic, of the same scale, not Gaussian", equal("variance", *logistic_variance(one_key))
    )


@claim(rows=("B01.35",))
def gaussian_affine(key, *, samples: Count = 20_000):
    r"""An affine map of a Gaussian vector is Gaussian, with the mapped mean and covariance.

    If $X\sim\mathcal N(\mu,\Sigma)$ on $\mathbb R^k$ then $AX+b\sim\mathcal N(A\mu+b,A\Sigma A^\top)$, also where
    $A\Sigma A^\top$ is singular (here three coordinates of two) and there is no density. The characteristic function is
    $\varphi_{AX+b}(t)=e^{it\cdot b}\varphi_X(A^\top t)$. Of a vector of independent uniform variables the image has
    the same mean and covariance, but is not Gaussian.
    """
    law_key, a_key, x_key, u_key, t_key = jax.random.split(key, 5)
    dim, image = 2, 3
    a, b = jax.random.normal(a_key, (image, dim)), jnp.array([1.0, -2.0, 0.5])
    # one coordinate is mostly one of the two variables, so that another law would show there
    a = a.at[0].set(jnp.array([1.5, 0.2]))

    @jax.jit
    def measure(law_key, a, x_key, u_key, t_key):
        law = _law(law_key, dim)
        predicted = law.affine(a, b)
        root = jnp.linalg.cholesky(law.covariance)
        normal = law.mean + jax.random.normal(x_key, (samples, dim)) @ root.T
        flat = law.mean + jax.random.uniform(u_key, (samples, dim), minval=-(3**0.5), maxval=3**0.5) @ root.T
        t = 0.3 * jax.random.normal(t_key, (6, image))
        y = normal @ a.T + b
        waves = y @ t.T
        characteristic = jax.vmap(predicted.characteristic)(t)
        back = jnp.exp(1j * (t @ b)) * jax.vmap(law.characteristic)(t @ a)
        return {
            "y": y,
            "flat": flat @ a.T + b,
            "mean": predicted.mean,
            "covariance": predicted.covariance,
            "waves": jnp.concatenate([jnp.cos(waves), jnp.sin(waves)], 1),
            "characteristic": jnp.concatenate([characteristic.real, characteristic.imag]),
            "back": jnp.concatenate([back.real, back.imag]),
            "least": jnp.linalg.eigvalsh(predicted.covariance),
        }

    m = measure(law_key, a, x_key, u_key, t_key)
    mean, covariance = np.asarray(m["mean"]), np.asarray(m["covariance"])
    size = np.sqrt(np.diag(covariance))
    centred = (np.asarray(m["y"]) - mean) / size
    yield estimate("mean of AX + b", m["y"], mean, wrong=mean + 0.1 * size)
    products = centred[:, :, None] * centred[:, None, :]
    correlation = covariance / np.outer(size, size)
    yield estimate("covariance of AX + b, normalised", products, correlation, wrong=correlation + 0.15)
    wrong = m["characteristic"] + 0.1
    yield estimate("characteristic function at six points", m["waves"], m["characteristic"], wrong=wrong)
    yield equal("characteristic function through that of X", m["back"], m["characteristic"])
    yield equal("three coordinates of two: singular", m["least"][0], 0.0, atol=1e-14 * 10 * float(m["least"][2]))
    from scipy.stats import norm

    first = np.asarray(m["y"])[:, 0]
    law, other = norm(mean[0], size[0]).cdf, norm(mean[0], 1.2 * size[0]).cdf
    yield same_law("law of the first coordinate", first, law, wrong=other)
    yield control(
        "the variables are uniform, not Gaussian",
        same_law("law of the first coordinate", np.asarray(m["flat"])[:, 0], law, wrong=other),
    )
