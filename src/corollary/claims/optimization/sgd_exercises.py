"""Stochastic gradient descent for least squares, absolute errors and clipped units (M exercises 7.1, 7.2, 7.7)."""

import jax
import jax.numpy as jnp
import numpy as np

from corollary.claims.nets._pictures import curves
from corollary.evidence import Count, Size, at_most, claim, control, equal, rate
from corollary.foundations import finite_difference_gradient
from corollary.nets import clipped_relu, relu
from corollary.optimization import batch_gradient, finite_sum, inverse_time, step_sizes


def _ends(problem, etas, keys, pieces):
    """Parameters of independent runs of SGD with one example per step, after each of `pieces` equal stretches."""

    def run(key):
        def advance(theta, step):
            eta, k = step
            return theta - eta * problem.oracle(theta, key=jax.random.fold_in(key, k)), None

        def stretch(theta, part):
            theta, _ = jax.lax.scan(advance, theta, part)
            return theta, theta

        parts = (etas.reshape(pieces, -1), jnp.arange(etas.size).reshape(pieces, -1))
        return jax.lax.scan(stretch, problem.start, parts)[1]

    return jax.vmap(run)(keys)


@claim(rows=("M07.27",), full={"steps": 100_000})
def least_squares(key, *, runs: Count = 256, steps: Count = 4000, dim: Size = 3):
    r"""Stochastic gradient descent for least squares, with and without noise in the labels.

    $\theta_{k+1}=\theta_k+2\eta_k(y_k-\theta_k\cdot x_k)x_k$. With $\eta_k=\frac{C_0}{C_1+k}$, $C_0$ large enough, the
    mean squared distance to the least-squares solution falls like $1/k$. If the labels can be fitted exactly, the
    constant step $\frac1{2\max\|x\|^2}$ shrinks it exponentially. With noise the constant step does not converge.
    """
    pieces = 20

    @jax.jit
    def measure(key):
        x_key, t_key, noise_key, run_key, p_key = jax.random.split(key, 5)
        x, truth = jax.random.normal(x_key, (40, dim)), jax.random.normal(t_key, (dim,))
        noisy = x @ truth + 0.5 * jax.random.normal(noise_key, (40,))
        keys = jax.random.split(run_key, runs)

        def squares(y, etas):
            problem = finite_sum(lambda t, x, y: (y - t @ x) ** 2, (x, y), jnp.zeros(dim))
            distance = _ends(problem, etas, keys, pieces) - jnp.linalg.lstsq(x, y)[0]
            return jnp.sum(distance**2, axis=-1).mean(0)

        constant = jnp.full(steps // 10, 1 / (2 * jnp.sum(x**2, axis=1).max()))
        theta, i = jax.random.normal(p_key, (dim,)), 7
        problem = finite_sum(lambda t, x, y: (y - t @ x) ** 2, (x, noisy), jnp.zeros(dim))
        formula = theta + 2 * 0.1 * (noisy[i] - theta @ x[i]) * x[i]
        return {
            "step": (formula, theta - 0.1 * batch_gradient(problem, theta, jnp.array([i]))),
            "decaying": squares(noisy, step_sizes(inverse_time(2.0, 40.0), steps)),
            "exact": squares(x @ truth, constant),
            "constant": squares(noisy, jnp.tile(constant, 10)),
        }

    m = measure(key)
    k = steps / pieces * np.arange(1, pieces + 1)
    late = slice(pieces // 5, None)
    yield equal("one step", *m["step"])
    yield rate("noisy labels: mean squared distance", k[late], m["decaying"][late], -1.0, tolerance=0.3, fit=0.8)
    yield at_most("labels that can be fitted: at the end over the first tenth", m["exact"][-1] / m["exact"][1], 0.05)
    yield control(
        "noisy labels and a constant step",
        rate("mean squared distance", k[late], m["constant"][late], -1.0, tolerance=0.3, fit=0.8),
    )


def _link(z):
    return z + jnp.tanh(z) / 2


@claim(rows=("M07.28",), full={"steps": 50_000})
def absolute_error(key, *, runs: Count = 256, steps: Count = 4000):
    r"""Stochastic gradient descent for the absolute error is not moved by outliers.

    $\theta_{k+1}=\theta_k+\eta_k\,\mathrm{sign}(y_k-g(\theta_k\cdot x_k))\,g'(\theta_k\cdot x_k)\,x_k$ for
    $\lambda=|y-g(\theta\cdot x)|$, here $g(z)=z+\frac12\tanh z$ (with 0 at a residual of 0). With one label in ten
    wrong by 10 the runs end within 0.1 of the truth on average; with the squared error they do not.
    """

    @jax.jit
    def measure(key):
        x_key, t_key, run_key, p_key = jax.random.split(key, 4)
        x, truth = jax.random.normal(x_key, (200, 3)), jax.random.normal(t_key, (3,))
        # the outliers go with one feature, so that their pull has a direction
        y = _link(x @ truth) + jnp.where(jnp.arange(200) < 20, 10.0 * jnp.sign(x[:, 0]), 0.0)
        keys = jax.random.split(run_key, runs)
        etas = step_sizes(inverse_time(10.0, 50.0), steps)

        def error(term, scale):
            problem = finite_sum(term, (x, y), jnp.zeros(3))
            return jnp.linalg.norm(_ends(problem, scale * etas, keys, 1)[:, -1] - truth, axis=1)

        def absolute(t, x, y):
            return jnp.abs(y - _link(t @ x))

        theta, i = jax.random.normal(p_key, (3,)), 50
        z = theta @ x[i]
        slope = jax.grad(_link)(z)
        formula = jnp.sign(y[i] - _link(z)) * slope * x[i]
        numeric = finite_difference_gradient(lambda t: absolute(t, x[i], y[i]), theta, 1e-6)
        squared = error(lambda t, x, y: (y - _link(t @ x)) ** 2, 0.1)
        return formula, -numeric, error(absolute, 1.0), squared

    formula, numeric, robust, squared = measure(key)
    # central differences off the kink: rounding 1e-15 over the step
    yield equal("direction of a step", formula, numeric, rtol=0, atol=1e-8)
    upper = robust.mean() + 5 * robust.std() / runs**0.5
    yield at_most("mean distance to the truth, with 5 standard errors", upper, 0.1)
    yield control(
        "the squared error in place of the absolute one", at_most("mean distance to the truth", squared.mean(), 0.1)
    )


@claim(rows=("M07.33",))
def clipped_units(key, *, units: Size = 6, instances: Size = 8):
    r"""A network of clipped rectified units with the Euclidean error, and its gradient by hand.

    $\sigma(z)=\min(\max(z,0),t)$ with $\sigma'=1$ between 0 and $t$ and 0 outside; $\lambda=\|y-m\|$,
    $\partial_m\lambda=-\frac{y-m}{\|y-m\|}$, and from there $\delta=C^\top\partial_m\lambda\odot\sigma'(Z)$,
    $\partial_C\lambda=\partial_m\lambda H^\top$, $\partial_W\lambda=\delta x^\top$. For $t\to\infty$ it is ReLU. A unit
    is dead on both sides. For vectors the text's $|y-m|$ names no norm; for the sum of absolute values
    $\partial_m\lambda=-\mathrm{sign}(y-m)$.
    """
    sigma, d, outputs = clipped_relu(1.0), 3, 2

    def split(theta):
        w, b = theta[: units * d].reshape(units, d), theta[units * d : units * (d + 1)]
        c, b2 = theta[units * (d + 1) : -outputs].reshape(outputs, units), theta[-outputs:]
        return w, b, c, b2

    def model(theta, x):
        w, b, c, b2 = split(theta)
        return c @ sigma(w @ x + b) + b2

    @jax.jit
    def measure(keys):
        def one(key):
            t_key, x_key, y_key = jax.random.split(key, 3)
            theta = jax.random.normal(t_key, (units * (d + 1) + outputs * (units + 1),))
            x, y = jax.random.normal(x_key, (d,)), 3 * jax.random.normal(y_key, (outputs,))
            w, b, c, _ = split(theta)
            z = w @ x + b

            def by_hand(by_m, slope):
                delta = c.T @ by_m * slope
                return jnp.concatenate([jnp.outer(delta, x).ravel(), delta, jnp.outer(by_m, sigma(z)).ravel(), by_m])

            rest = y - model(theta, x)
            inside = ((z > 0) & (z < 1)).astype(float)
            norms = (lambda v: jnp.sqrt(jnp.sum(v**2)), lambda v: jnp.abs(v).sum())
            numeric = jnp.stack(
                [finite_difference_gradient(lambda t, f=f: f(y - model(t, x)), theta, 1e-7) for f in norms]
            )
            ours = jnp.stack([by_hand(-rest / jnp.linalg.norm(rest), inside), by_hand(-jnp.sign(rest), inside)])

            def rectified(t):
                w, b, c, b2 = split(t)
                return jnp.linalg.norm(y - c @ relu(w @ x + b) - b2)

            # of a network whose units are not clipped
            other = finite_difference_gradient(rectified, theta, 1e-7)
            # within a step of a kink a difference is no derivative
            clear = jnp.minimum(jnp.abs(z), jnp.abs(z - 1)).min() > 1e-5
            return jnp.where(clear, numeric, ours), ours, other, z

        return jax.vmap(one)(keys)

    numeric, ours, other, z = measure(jax.random.split(key, instances))
    # values of order one, rounded at 1e-16, over a step of 1e-7
    yield equal("gradient, both norms", ours, numeric, rtol=0, atol=1e-7)
    yield equal("slope", sigma.prime(z), ((z > 0) & (z < 1)).astype(float), rtol=0, atol=0)
    yield equal("a high clip is none", clipped_relu(1e6)(z), relu(z), rtol=0, atol=0)
    yield equal("dead on both sides", sigma.prime(jnp.array([-0.5, 0.5, 1.5])), [0, 1, 0], rtol=0, atol=0)
    yield control("units that are not clipped", equal("gradient", ours[:, 0], other, rtol=0, atol=1e-7))
    grid = np.linspace(-1, 2, 121)
    yield curves("clipped rectified unit", grid, {"clipped at 1": sigma(grid), "ReLU": relu(grid)}, "z")
