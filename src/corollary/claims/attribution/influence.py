"""Influence functions against retraining: order of the remainder, ranking, damping, and a Hessian that is singular."""

import altair as alt
import jax
import jax.numpy as jnp
import numpy as np
from scipy.stats import spearmanr

from corollary import Network, nets
from corollary.attribution import infinitesimal_influence, influence, leave_one_out_retraining
from corollary.evidence import Count, Positive, Size, at_least, at_most, claim, control, equal, picture, printed, rate


def _linear(w):
    return Network(lambda w, one: w @ one, w)


def _slope(w, x, y, weights, penalty):
    return x.T @ (weights * (jax.nn.sigmoid(x @ w) - y)) / x.shape[0] + penalty * w


def _newton(x, y, weights, penalty):
    """Weighted logistic regression with a penalty, to the last digit."""
    n, d = x.shape

    def step(w, _):
        p = jax.nn.sigmoid(x @ w)
        curvature = (x.T * (weights * p * (1 - p))) @ x / n + penalty * jnp.eye(d)
        return w - jnp.linalg.solve(curvature, _slope(w, x, y, weights, penalty)), None

    return jax.lax.scan(step, jnp.zeros(d), length=15)[0]


def _stopped(x, y, weights, penalty):
    """The same, stopped after a few steps of gradient descent."""
    step = lambda w, _: (w - _slope(w, x, y, weights, penalty), None)  # noqa: E731
    return jax.lax.scan(step, jnp.zeros(x.shape[1]), length=5)[0]


def _points(key, n, dim, scales=1.0):
    x_key, y_key, w_key = jax.random.split(key, 3)
    z = jax.random.normal(x_key, (n, dim))
    logits = z @ (jax.random.normal(w_key, (dim,)) * 2 / jnp.sqrt(dim))
    return z * scales, jax.random.bernoulli(y_key, jax.nn.sigmoid(logits)).astype(float)


@claim(rows=("T10.01", "T10.03"))
def second_order_remainder(key, *, dim: Size = 5, n: Size = 60, penalty: Positive = 0.02, points: Size = 8):
    r"""Influence predicts the loss after reweighting a point up to the square of the weight.

    $\ell$ twice differentiable, $\nabla\ell(S,\theta^*)=0$ and $H=\nabla^2\ell(S,\theta^*)$ positive definite. With
    $\theta_{x,\epsilon}$ the minimiser of $\ell(S,\theta)+\epsilon\ell(x,\theta)$, the derivative $I(x,z)$ of
    $\ell(z,\theta_{x,\epsilon})$ at $\epsilon=0$ is $-\nabla\ell(z,\theta^*)^\top H^{-1}\nabla\ell(x,\theta^*)$, and
    $\ell(z,\theta_{x,\epsilon})-\ell(z,\theta^*)-\epsilon I(x,z)$ is of the order of $\epsilon^2$. Where training has
    been stopped before the gradient vanished, it is of the order of $\epsilon$. Measured by training again, for
    logistic regression whose penalty is a part of $\ell(S,\theta)$ only.
    """
    shares = 2.0 ** -jnp.arange(9)

    @jax.jit
    def measure(key):
        data = _points(key, n + points, dim)
        train, test = jax.tree.map(lambda a: a[:n], data), jax.tree.map(lambda a: a[n:], data)

        def remainder(train_by):
            fit = lambda weights: _linear(train_by(*train, weights, penalty))  # noqa: E731

            def losses(weights):
                w = train_by(*train, weights, penalty)
                margin = (2 * test[1] - 1) * (test[0] @ w)
                return jnp.logaddexp(0.0, -margin)

            network = fit(jnp.ones(n))
            slope = -n * influence(network, "binary_cross_entropy", train, test, penalty=penalty).scores[:points]
            base = losses(jnp.ones(n))

            def at(share):
                moved = jax.vmap(lambda i: losses(jnp.ones(n).at[i].add(share)))(jnp.arange(points)) - base
                return jnp.sqrt(jnp.mean((moved - share / n * slope) ** 2))

            return jax.lax.map(at, shares), slope

        right, slope = remainder(_newton)
        early, _ = remainder(_stopped)
        fit = lambda data, weights: _linear(_newton(*data, weights, penalty))  # noqa: E731
        central = infinitesimal_influence(fit, "binary_cross_entropy", train, test, epsilon=1e-4 / n)[:points]
        return right, early, slope, central

    right, early, slope, central = measure(key)
    epsilon = np.asarray(shares) / n
    yield rate("remainder, mean square over pairs", epsilon, right, 2.0, tolerance=0.1, along="ε")
    # the central difference is off by its third derivative times ε² and by rounding over ε: 1e-8 and 1e-10
    yield equal("derivative by the weight, by retraining", central, slope, rtol=1e-6, atol=1e-7)
    yield control(
        "a gradient that vanishes: here training stopped after five steps",
        rate("remainder, mean square over pairs", epsilon, early, 2.0, tolerance=0.1),
    )


@claim(rows=("T10.03", "T10.02"))
def ranking_of_removals(key, *, dim: Size = 8, n: Size = 400, penalty: Positive = 1e-4, tests: Size = 5):
    r"""Influence ranks training points as retraining without each of them does, and only with the inverse curvature.

    For logistic regression the predicted changes $\frac1n\nabla\ell(z)^\top H^{-1}\nabla\ell(x_i)$ have the ranks of
    the changes after retraining, with a rank correlation above 0.99. With the identity in the place of $H^{-1}$, where
    features are of such different sizes that $H$ has a condition number of some $10^3$, it falls below 0.9.
    """
    scales = jnp.logspace(0, -1.5, dim)

    @jax.jit
    def measure(key):
        data = _points(key, n + tests, dim, scales)
        train, test = jax.tree.map(lambda a: a[:n], data), jax.tree.map(lambda a: a[n:], data)
        weights = penalty * jnp.mean(train[0] ** 2)
        fit = lambda data, w: _linear(_newton(*data, w, weights))  # noqa: E731
        retrained = leave_one_out_retraining(fit, "binary_cross_entropy", train, test).changes
        network = fit(train, jnp.ones(n))
        found = influence(network, "binary_cross_entropy", train, test, penalty=weights)
        # damping far above the curvature leaves the identity
        plain = influence(network, "binary_cross_entropy", train, test, damping=1e6)
        condition = (found.premises.largest + weights) / (found.premises.least + weights)
        return retrained, found.scores, plain.scores, condition

    retrained, found, plain, condition = map(np.asarray, measure(key))
    ranks = lambda scores: np.array([spearmanr(*pair).statistic for pair in zip(scores.T, retrained.T, strict=True)])  # noqa: E731
    yield at_least("condition number of the Hessian", condition, 300.0)
    yield at_least("rank correlation with retraining", ranks(found), 0.99)
    yield control(
        "the inverse curvature: here the identity", at_least("mean rank correlation", ranks(plain).mean(), 0.9)
    )


@claim(rows=("T10.03",), erratum="A positive semi-definite Hessian is not enough: it must be invertible.")
def printed_semidefinite_hessian(key, *, n: Size = 12, tests: Size = 4):
    r"""The influence formula for a positive semi-definite Hessian.

    As printed: "the theory assumes $\theta^*$ satisfies $\nabla_\theta(S,\theta^*)=0$ and $\nabla^2_\theta(S,\theta^*)$
    is positive semi-definite", and then $I(x,z)=-\nabla\ell(z)^\top H^{-1}\nabla\ell(x)$. The network $f(x)=\theta^3x$
    with the squared loss on data with $\sum_ix_iy_i=0$ has its only minimum at $\theta=0$, where gradients and Hessian
    vanish: the formula gives 0 with any generalised inverse and any damping, whereas the influence is that of
    linear regression, to which the network is equal. In the coordinate $w=\theta^3$ the Hessian is positive definite
    and the formula true.
    """

    def cubic(theta):
        return Network(lambda t, one: t[0] ** 3 * one[0], theta)

    def straight(w):
        return Network(lambda w, one: w[0] * one[0], w)

    def fit(train, weights):
        """The minimum in closed form; the cube root of a slope."""
        x, y = train[0][:, 0], train[1]
        return jnp.cbrt(weights @ (x * y) / (weights @ x**2))[None]

    @jax.jit
    def measure(key):
        x_key, y_key, z_key = jax.random.split(key, 3)
        x, y = jax.random.normal(x_key, (n,)), jax.random.normal(y_key, (n,))
        y = y - x * (x @ y) / (x @ x)
        z, t = jax.random.normal(z_key, (2, tests))
        train, test = (x[:, None], y), (z[:, None], t)
        theta = fit(train, jnp.ones(n))
        real = infinitesimal_influence(lambda data, w: cubic(fit(data, w)), "squared", train, test, epsilon=1e-3 / n)
        damped = [influence(cubic(0 * theta), "squared", train, test, damping=d) for d in (1e-6, 1e-2)]
        linear = influence(straight(theta**3), "squared", train, test).scores
        premises = damped[0].premises
        return real, jnp.stack([-n * d.scores for d in damped]), -n * linear, premises.gradient_norm, premises.least

    real, damped, linear, slope, least = measure(key)
    yield equal("gradient of the mean loss", slope, 0.0)
    yield at_least("least eigenvalue of the Hessian", least, 0.0)
    yield printed(equal("influence, by retraining: the formula", real, damped[0], rtol=1e-2, atol=1e-6))
    # the loss is a quadratic function of w, and w nearly linear in ε: ε² = 1e-6 / n² relative, and rounding over ε
    yield equal("influence, by retraining: the formula in w", real, linear, rtol=1e-5, atol=1e-8)


def _train(network, x, y, weights, *, step, steps):
    """Gradient descent on the weighted squared loss."""

    def loss(network):
        return 0.5 * jnp.mean(weights * (jax.vmap(network)(x)[:, 0] - y) ** 2)

    def once(network, _):
        return jax.tree.map(lambda a, g: a - step * g, network, jax.grad(loss)(network)), None

    return jax.lax.scan(once, network, length=steps)[0]


@claim(rows=("T10.04",), no_control="an algorithm; no damping and too much of it are among the checks")
def damping(key, *, n: Size = 30, steps: Count = 1500, more: Count = 300, networks: Size = 6):
    r"""For a trained network influence needs damping, neither too little nor too much.

    Of tanh networks after gradient descent the Hessian has small negative eigenvalues, and $(H+\lambda I)^{-1}$ in the
    place of $H^{-1}$ asks for $\lambda>-\lambda_{\min}$. The cosine with training on without a point is largest
    for a $\lambda$ in between: at least 0.8 there in the median over networks, and lower by 0.1 at both ends. For
    $\lambda\to\infty$ the scores become inner products of gradients: at $\lambda=10^4\lambda_{\max}$ with a cosine
    above 0.999.
    """
    ratios = jnp.logspace(-8, 2, 21)

    @jax.jit
    def measure(key):
        def one(key):
            x_key, y_key, net_key = jax.random.split(key, 3)
            x = jax.random.uniform(x_key, (n + 10, 1), minval=-2.0, maxval=2.0)
            y = jnp.sin(2 * x[:, 0]) + 0.3 * jax.random.normal(y_key, (n + 10,))
            start = nets.MLP((1, 6, 1), nets.tanh, key=net_key)
            go = lambda network, weights, k: _train(network, x[:n], y[:n], weights, step=0.2, steps=k)  # noqa: E731
            network = go(start, jnp.ones(n), steps)
            test = (x[n:], y[n:, None])
            after = lambda w: 0.5 * (jax.vmap(go(network, w, more))(test[0])[:, 0] - y[n:]) ** 2  # noqa: E731
            retrained = jax.vmap(after)(1 - jnp.eye(n)) - after(jnp.ones(n))
            train = (x[:n], y[:n, None])
            ask = lambda d: influence(network, "squared", train, test, damping=d)  # noqa: E731
            premises = ask(1.0).premises
            floor = -jnp.minimum(premises.least, 0)
            scores = jax.lax.map(lambda r: ask(floor * 1.001 + r * premises.largest).scores, ratios)
            agree = jax.vmap(lambda s: _cosine(s, retrained))(scores)
            rows = jax.vmap(lambda a, b: _gradient(network, a, b))
            inner = rows(*train) @ rows(*test).T
            return agree, premises.least, _cosine(ask(1e4 * premises.largest).scores, inner)

        return jax.lax.map(one, jax.random.split(key, networks))

    agree, least, limit = map(np.asarray, measure(key))
    middle = np.median(agree, 0)
    best = int(middle.argmax())
    curve = {"values": [{"damping": float(r), "agreement": float(a)} for r, a in zip(ratios, middle, strict=True)]}
    chart = alt.Chart(alt.Data(**curve)).mark_line(point=True)
    across = alt.X("damping:Q", title="damping over the largest curvature", scale=alt.Scale(type="log"))
    up = alt.Y("agreement:Q", title="cosine with training on")
    yield picture("agreement with training on without a point", chart.encode(x=across, y=up))
    yield at_most("least of the networks' least eigenvalues", least.min(), -1e-6)
    yield at_least("agreement with training on, at the best damping", middle[best], 0.8)
    yield at_most("agreement with the least damping, beside the best", middle[0], middle[best] - 0.1)
    yield at_most("agreement with the most damping, beside the best", middle[-1], middle[best] - 0.1)
    yield at_least("cosine with inner products of gradients, λ = 10000 times the curvature", limit, 0.999)


def _cosine(a, b):
    return jnp.sum(a * b) / jnp.sqrt(jnp.sum(a**2) * jnp.sum(b**2))


def _gradient(network, x, y):
    slopes = jax.grad(lambda network: 0.5 * jnp.sum((network(x) - y) ** 2))(network)
    return jnp.concatenate([jnp.ravel(g) for g in jax.tree.leaves(slopes)])
