"""Euler and Maruyama's scheme: how near its paths and its means come; the likelihood of an observed path."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from corollary.differential import NeuralSDE, euler_maruyama, path_log_likelihood
from corollary.evidence import Count, Positive, at_least, at_most, claim, control, equal, printed, rate


@claim(rows=("M22.12", "M22.13"))
def strong_and_weak_order(key, *, paths: Count = 10_000, volatility: Positive = 0.5):
    r"""Paths come near with the root of the step, means with the step; with constant noise paths do so too.

    For $dX=rX\,dt+\sigma X\,dW$ the scheme $X_{i+1}=X_i+\mu\Delta+\sigma\sqrt\Delta W_i$ has
    $\sqrt{E|X_N-X_T|^2}\sim\Delta^{1/2}$ (here $r=0$) and $|E X_N-E X_T|\sim\Delta$ ($r=1$); for $dX=-X\,dt+\sigma\,dW$
    the first goes like $\Delta$. Drift and noise are Lipschitz; for $dX=-X^3dt+\sigma\,dW$ the scheme explodes with few
    steps.
    """
    steps, finest = 2 ** np.arange(2, 8), 1024

    @jax.jit
    def measure(key):
        noise = jax.random.normal(key, (finest, paths, 1))

        def ends(sde, start, n):
            """With n steps, driven by one and the same Brownian motion."""
            coarse = noise.reshape(n, finest // n, paths, 1).sum(1) / np.sqrt(finest // n)
            return euler_maruyama(sde, jnp.full(1, start), 1.0, steps=n, paths=paths, noise=coarse)[:, 0]

        def gaps(r):
            """From X_T = exp((r - σ²/2) T + σ W_T), T = 1."""
            growth = NeuralSDE(lambda x: r * x, lambda x: volatility * x)
            exact = jnp.exp(r - volatility**2 / 2 + volatility * noise.sum(0)[:, 0] / np.sqrt(finest))
            return jnp.stack([ends(growth, 1.0, n) - exact for n in steps.tolist()])

        pull = NeuralSDE(lambda x: -x, lambda x: volatility * jnp.ones_like(x))
        cubic = NeuralSDE(lambda x: -(x**3), lambda x: volatility * jnp.ones_like(x))
        pulled = jnp.stack([ends(pull, 1.0, n) for n in steps.tolist()]) - ends(pull, 1.0, finest)
        wild = jnp.stack([ends(cubic, 3.0, n) for n in steps.tolist()]) - ends(cubic, 3.0, finest)
        return *(jnp.sqrt((g**2).mean(1)) for g in (gaps(0.0), pulled, wild)), jnp.abs(gaps(1.0).mean(1))

    strong, constant, wild, weak = (np.asarray(a) for a in measure(key))
    # by Taylor's expansion the next terms are smaller by the root of the step, at most a half at 4 steps and 0.09 at
    # 128
    yield rate("distance of the paths", steps, strong, -0.5, tolerance=0.15, along="number of steps")
    yield rate("distance of the means", steps, weak, -1.0, tolerance=0.25, along="number of steps")
    yield rate("distance of the paths, constant noise", steps, constant, -1.0, tolerance=0.15, along="number of steps")
    # both schemes begin at distance 1 from 0 or more, to which the solutions are pulled
    yield at_most("largest distance of the paths, constant noise", constant.max(), 1.0)
    yield control("a Lipschitz drift: here the cube", at_most("largest distance of the paths", wild.max(), 1.0))


class _Pull(eqx.Module):
    """-κx."""

    kappa: jax.Array

    def __call__(self, x):
        return -self.kappa * x


class _Constant(eqx.Module):
    """e^s, whatever x is."""

    log: jax.Array

    def __call__(self, x):
        return jnp.exp(self.log) * jnp.ones_like(x)


def _pulled(kappa, sigma):
    return NeuralSDE(_Pull(jnp.asarray(kappa)), _Constant(jnp.log(sigma)))


def _likeliest(path, spacing):
    """κ and σ of the largest likelihood, by Newton's method on its derivatives from a start that is far off."""

    def value(theta):
        return path_log_likelihood(_pulled(theta[0], jnp.exp(theta[1])), path, spacing)

    def newton(theta, _):
        # the quadratic model in κ is exact; in log σ half a Newton step keeps the iteration from leaving
        return theta - 0.5 * jnp.linalg.solve(jax.hessian(value)(theta), jax.grad(value)(theta)), None

    theta, _ = jax.lax.scan(newton, _least_squares_start(path, spacing), length=80)
    return theta[0], jnp.exp(theta[1])


def _least_squares_start(path, spacing):
    return jnp.array([0.5, 0.5 * jnp.log(1.5 * ((path[1:] - path[:-1]) ** 2).mean() / spacing)])


@claim(rows=("M22.14",))
def likeliest_path(key, *, steps: Count = 40_000, kappa: Positive = 1.0, sigma: Positive = 0.5):
    r"""The likelihood of an observed path is largest at the least-squares drift, and finds the truth.

    For $dY=-\kappa Y\,dt+\sigma\,dW$ observed at steps of $\Delta$, $\frac1N\sum\log\phi(Y_i;Y_{i-1}-\kappa
    Y_{i-1}\Delta,\sigma\sqrt\Delta)$ is largest at $\hat\kappa=-\sum Y_{i-1}(Y_i-Y_{i-1})/(\Delta\sum Y_{i-1}^2)$ and
    $\hat\sigma^2=\overline{(Y_i-Y_{i-1}+\hat\kappa Y_{i-1}\Delta)^2}/\Delta$, within a few times $\sqrt{2\kappa/T}$ of
    $\kappa$. Of a path that is seen at every 20th step only the drift that is found is too small.
    """
    spacing = 0.05

    @jax.jit
    def measure(key):
        path = euler_maruyama(_pulled(kappa, sigma), jnp.zeros(1), spacing * steps, steps=steps, keep="path", key=key)[
            0
        ]
        before, change = path[:-1, 0], jnp.diff(path[:, 0])
        by_squares = -(before @ change) / (spacing * before @ before)
        scale = jnp.sqrt(((change + by_squares * before * spacing) ** 2).mean() / spacing)
        return (
            jnp.stack(_likeliest(path, spacing)),
            jnp.stack([by_squares, scale]),
            _likeliest(path[::20], 20 * spacing)[0],
        )

    found, predicted, seldom = measure(key)
    error = 5 * np.sqrt(2 * kappa / (steps * spacing))  # five standard deviations: 6e-7
    yield equal("drift and noise of the largest likelihood", found, predicted, rtol=1e-8)
    yield at_most("distance of the drift from the truth", abs(float(found[0]) - kappa), error)
    yield control(
        "seen at every step: here at every 20th",
        at_most("distance of the drift from the truth", abs(float(seldom) - kappa), error),
    )


@claim(
    rows=("M22.14",),
    erratum="(22.13) puts the model's own path into the density, whose argument must be the observed step.",
)
def likelihood_as_printed(key, *, steps: Count = 20_000):
    r"""With the model's own path inside, the likelihood prefers wrong parameters even to those that made the data.

    Printed: $\frac1N\sum\log\phi(Y_i-X_i;X_{i-1}+\mu(X_{i-1})\Delta,\sigma\sqrt\Delta)$, $X$ the model's path. For
    $dY=-\kappa Y\,dt+\frac12dW$, $\kappa=1$, and $X$ driven by the same noise, so that at the truth $X=Y$, it is larger
    at $\kappa=4$. The transition density of the observed path is larger at $\kappa=1$.
    """
    spacing = 0.05

    @jax.jit
    def measure(key):
        noise = jax.random.normal(key, (steps, 1, 1))

        def path(kappa):
            sde = _pulled(kappa, 0.5)
            return euler_maruyama(sde, jnp.zeros(1), spacing * steps, steps=steps, keep="path", noise=noise)[0]

        observed = path(1.0)

        def as_printed(kappa):
            own = path(kappa)
            mean, scale = own[:-1] * (1 - kappa * spacing), 0.5 * np.sqrt(spacing)
            return jax.scipy.stats.norm.logpdf(observed[1:] - own[1:], mean, scale).mean()

        def corrected(kappa):
            return path_log_likelihood(_pulled(kappa, 0.5), observed, spacing)

        return jnp.stack([as_printed(1.0), as_printed(4.0), corrected(1.0), corrected(4.0)])

    printed_truth, printed_wrong, truth, wrong = (float(v) for v in measure(key))
    yield at_least("log-likelihood at the truth against 4", truth, wrong)
    yield printed(at_least("as printed, at the truth against 4", printed_truth, printed_wrong))
