"""Logistic regression: its loss, its gradient, its descent."""

import jax
import jax.numpy as jnp

from corollary.claims.linear._pictures import contours
from corollary.data import book_logistic_surrogate, logistic_data
from corollary.evidence import Count, Size, at_least, at_most, claim, control, equal, monotone, rate
from corollary.foundations import binary_cross_entropy
from corollary.linear import (
    binned_frequency,
    fit_newton,
    logistic_chain_gradients,
    logistic_function,
    logistic_gradient,
    logistic_hessian,
    logistic_loss,
    logistic_point_gradients,
    logistic_point_losses,
    logistic_smoothness,
    moment_matrix,
)
from corollary.optimization import gradient_descent

EPS = 2.3e-16


@claim(rows=("M03.07", "M03.29"))
def logit_form(key, *, n: Size = 200, steps: Count = 20_000):
    r"""The cross-entropy of a logistic model is a softplus of its logit, and has no minimiser on a single class.

    $-\ln(1-S(z))=\ln(1+e^z)$ and $-\ln S(z)=\ln(1+e^{-z})$. For the data $(-2,0),(1,1)$ and $\theta=(\frac12,1)$ the
    average is $\frac12[\ln2+\ln(1+e^{-3/2})]$. If all labels are 0 the infimum 0 is not attained: with $x\equiv0$ and
    $\eta=1$ the bias follows $b_k\simeq-\ln k$.
    """
    x_key, y_key = jax.random.split(key)
    x = 4 * jax.random.normal(x_key, (n,))
    y = jax.random.bernoulli(y_key, shape=(n,)).astype(int)
    theta = jnp.array([1.3, -0.4])
    composed = binary_cross_entropy(y, logistic_function(theta[0] * x + theta[1]))
    # where S rounds towards 1, 1 - S is known to eps / (1 - S)
    lost = EPS * float(jnp.exp(jnp.abs(theta[0] * x + theta[1]).max()))
    yield equal("losses of the datapoints", composed, logistic_point_losses(theta, x, y), rtol=lost, atol=lost)
    exercise = logistic_loss(jnp.array([0.5, 1.0]), jnp.array([-2.0, 1.0]), jnp.array([0, 1]))
    yield equal("Exercise 3.2", exercise, 0.5 * (jnp.log(2) + jnp.log(1 + jnp.exp(-1.5))), rtol=1e-14)

    zeros = jnp.zeros(10)

    @jax.jit
    def bias(labels):
        return gradient_descent(lambda t: logistic_gradient(t, zeros, labels), jnp.zeros(2), 1.0, steps)[:, 1]

    k = jnp.unique(jnp.logspace(2, jnp.log10(steps), 30).astype(int), size=30)
    alone = jnp.exp(-bias(jnp.zeros(10)))
    both = jnp.exp(-bias(jnp.array([0, 1] * 3 + [0] * 4)))
    yield rate("exp(-b) along gradient descent, one class", k, alone[k], 1.0, tolerance=0.05, along="iteration")
    yield control(
        "both classes are present",
        rate("exp(-b) along gradient descent", k, both[k], 1.0, tolerance=0.05, along="iteration"),
    )


@claim(rows=("M03.08",))
def gradient(key, *, n: Size = 400):
    r"""The gradient of the logistic loss is residual times feature; the chain rule's own form loses it far out.

    $\nabla\lambda_{(x,y)}(\theta)=\ell_y'(S(z))\,S'(z)\,(x,1)^\top=(S(z)-y)\,(x,1)^\top$ with $z=wx+b$. In floating
    point the first form is $\infty\cdot0$ once $S(z)$ rounds to 1 and the label is 0.
    """
    z_key, y_key = jax.random.split(key)
    z = jax.random.uniform(z_key, (n,), minval=-8.0, maxval=8.0)
    y = jax.random.bernoulli(y_key, shape=(n,)).astype(int)
    theta, h = jnp.array([1.0, 0.0]), 1e-5

    @jax.jit
    def measure(x, y):
        def shifted(e):
            return (logistic_point_losses(theta + h * e, x, y) - logistic_point_losses(theta - h * e, x, y)) / (2 * h)

        differences = jax.vmap(shifted)(jnp.eye(2)).T
        return differences, logistic_chain_gradients(theta, x, y), logistic_point_gradients(theta, x, y)

    differences, chain, simple = measure(z, y)
    # truncation: h² |x|³ / 6 times the third derivative (below 1/8); rounding: eps |loss| / h
    error = h**2 * 8**3 / 48 + 8 * EPS / h
    yield equal("central differences of the loss", differences, simple, atol=error)
    lost = 4 * EPS * float(jnp.exp(8.0))
    yield equal("chain rule form, moderate logits", chain, simple, rtol=lost)
    far = jnp.linspace(31.0, 36.0, 50)
    _, chain, simple = measure(far, jnp.zeros(50))
    yield control("beyond z = 30 rounding eats 1 - S(z)", equal("chain rule form", chain, simple, rtol=lost))
    _, chain, simple = measure(jnp.full(1, 40.0), jnp.zeros(1))
    yield equal("chain rule form at z = 40 is finite", jnp.isfinite(chain).sum(), 0, rtol=0, atol=0)
    yield equal("residual form at z = 40", simple[0], jnp.array([40.0, 1.0]))


@claim(rows=("M03.09",))
def descent(key, *, n: Size = 200, thetas: Size = 64, steps: Count = 300):
    r"""The logistic loss is convex and smooth, and gradient descent with a step below 2/L decreases it every time.

    Its Hessian is $\frac1n\sum S'(z)\tilde x\tilde x^\top\preceq\frac14A$ with $A=\overline{\tilde x\tilde x^\top}$
    (equality at $\theta=0$), so the gradient is $L$-Lipschitz with $L=\lambda_+(A)/4$, every step $\eta<2/L$
    decreases the loss, and descent ends where Newton's method does.
    """
    data_key, label_key, theta_key = jax.random.split(key, 3)
    x = logistic_data(jnp.array([1.0, 0.5]), n, key=data_key).x
    y = jax.random.bernoulli(label_key, shape=(n,)).astype(int)  # coin flips: the minimiser is close to 0
    points = 3 * jax.random.normal(theta_key, (thetas, 2))

    @jax.jit
    def measure(points):
        L = logistic_smoothness(x)
        curvature = jax.vmap(jax.hessian(lambda t: logistic_loss(t, x, y)))(points)

        def losses(factor, start):
            path = gradient_descent(lambda t: logistic_gradient(t, x, y), start, factor / L, steps)
            return path[-1], jax.vmap(lambda t: logistic_loss(t, x, y))(path)

        top = jnp.linalg.eigh(moment_matrix(x))[1][:, 1]
        end, one = losses(1.0, points[0])
        _, almost_two = losses(1.99, points[0])
        best = fit_newton(x, y).theta
        # where the curvature at the minimiser is used in full, 3/L overshoots
        _, three = losses(3.0, best + 0.1 * top)
        slope = jnp.linalg.norm(logistic_gradient(end, x, y))
        return L, jnp.linalg.eigvalsh(curvature), one, almost_two, three[:3], end, best, slope

    L, spectra, one, almost_two, three, end, best, slope = measure(points)
    yield at_least("least eigenvalue of the Hessian", spectra[:, 0], 0.0)
    yield at_most("greatest eigenvalue of the Hessian", spectra[:, 1], L)
    origin = jax.hessian(lambda t: logistic_loss(t, x, y))(jnp.zeros(2))
    yield equal("Hessian at 0", origin, moment_matrix(x) / 4)
    # near the minimiser two losses differ by less than their rounding
    yield monotone("loss, step 1/L", one, "decreasing", atol=4 * EPS, along="iteration")
    yield monotone("loss, step 1.99/L", almost_two, "decreasing", atol=4 * EPS, along="iteration")
    weakest = jnp.linalg.eigvalsh(logistic_hessian(best, x))[0]
    yield at_most("distance of descent to Newton's minimiser", jnp.linalg.norm(end - best), 2 * slope / weakest + 1e-8)
    yield control("a step of 3/L", monotone("loss", three, "decreasing", atol=4 * EPS, along="iteration"))


@claim(rows=("M03.09", "M03.04", "M03.01"))
def slow_valley(key, *, steps: Count = 2000):
    r"""On raw features gradient descent with step 0.01 needs some hundred thousand steps.

    For the 50 features behind Table 3.1 (mean 7.0435, standard deviation 2.2976; labels are a surrogate, the printed
    ones are unknown) the Hessian at the optimum has eigenvalues near 0.0011 and 3.7. Near the optimum the slow
    component shrinks by $1-\eta\lambda_-$ a step, so that a run of 1,000 steps from 0, as one would plot, is nowhere
    near.
    """
    x, y = book_logistic_surrogate()
    yield equal(
        "mean and standard deviation of the features",
        jnp.stack([x.mean(), x.std(ddof=1)]),
        jnp.array([7.0435, 2.2976]),
        rtol=0,
        atol=5e-5,
    )
    printed = jnp.array([10.84, 6.49, 7.66, 14.40, 11.47])
    yield equal("printed features", x[:5], printed, rtol=0, atol=0.005 + 1e-12)
    fit = fit_newton(x, y)
    eta = 0.01
    spectrum, basis = jnp.linalg.eigh(logistic_hessian(fit.theta, x))
    nudge = 1e-5

    @jax.jit
    def run(start, step):
        return gradient_descent(lambda t: logistic_gradient(t, x, y), start, step, steps)

    near = run(fit.theta + nudge * basis[:, 0], eta)
    left = jnp.linalg.norm(near - fit.theta, axis=1)
    # the third derivative bends the valley: a relative error of the order of the nudge times its curvature ratio
    yield equal(
        "slow component", left, nudge * (1 - eta * spectrum[0]) ** jnp.arange(steps + 1), rtol=1e-3, along="iteration"
    )
    far = run(jnp.zeros(2), eta)
    yield at_least("distance to the optimum after 1,000 steps from 0", jnp.linalg.norm(far[1000] - fit.theta), 5.0)
    yield at_least("steps that one e-fold takes", 1 / (eta * spectrum[0]), 5e4)
    yield control(
        "the features are scored, not raw",
        at_least(
            "steps that one e-fold takes",
            1 / (eta * jnp.linalg.eigvalsh(logistic_hessian(jnp.zeros(2), (x - x.mean()) / x.std()))[0]),
            5e4,
        ),
    )
    yield contours(
        "loss over (w, b), with 2,000 steps of descent from 0",
        lambda theta: logistic_loss(theta, x, y),
        centre=fit.theta,
        radius=(3.0, 18.0),
        names=("w", "b"),
        paths={"η = 0.01": far[::40]},
    )


@claim(rows=("M03.03",))
def binned_frequencies(key, *, sets: Size = 200, n: Size = 5000, bins: Size = 20):
    r"""Frequencies in bins follow the logistic curve within their Wilson intervals.

    If $y\sim\mathrm{Bernoulli}(S(wx+b))$, the 95 % Wilson interval of the frequency in a bin covers the mean of
    $S(wx+b)$ over the features of the bin at least 95 % of the time, up to the discreteness of counts.
    """
    edges = jnp.linspace(-1.0, 1.0, bins + 1)
    theta = jnp.array([2.0, 0.3])

    @jax.jit
    def coverage(key):
        x, y = logistic_data(theta, n, key=key, law="uniform")
        found = binned_frequency(x, y, edges)

        def covered(theta):
            curve = binned_frequency(x, logistic_function(theta[0] * x + theta[1]), edges).frequency
            return ((found.lower <= curve) & (curve <= found.upper)).mean()

        return covered(theta), covered(theta + jnp.array([0.0, 0.3]))

    right, wrong = jax.vmap(coverage)(jax.random.split(key, sets))
    # five standard errors of a binomial share, and two percent for the discreteness of counts
    allowed = 0.95 - 5 * (0.95 * 0.05 / (sets * bins)) ** 0.5 - 0.02
    yield at_least("share of intervals that cover the curve", right.mean(), allowed)
    yield control(
        "the labels follow another curve", at_least("share of intervals that cover it", wrong.mean(), allowed)
    )
