"""The shallow network of finite width: its start, its gradient flow, and how its kernel drives it (M chapter 19)."""

import jax
import jax.numpy as jnp
import numpy as np

from corollary.dynamics import (
    ScaledNetwork,
    draw_shallow,
    gaussian_output_variance,
    limit_kernel,
    linearised_output_variance,
    shallow_flow,
    shallow_sgd,
    shallow_velocity,
    start_covariance,
    tangent_kernel,
    tangent_parts,
)
from corollary.evidence import Count, Size, claim, control, equal, estimate, rate, same_law
from corollary.optimization import Problem, gradient_flow

HERMITE = np.polynomial.hermite_e.hermegauss(80)


def _data(key, points, features):
    x_key, y_key = jax.random.split(key)
    return jax.random.normal(x_key, (points, features)), jax.random.normal(y_key, (points,))


def _outputs(theta, x):
    """The network without any factor in front, for autodiff."""
    outer, inner = theta
    return jax.lax.erf(x @ inner.T) @ outer


@claim(rows=("M19.08",))
def two_parametrisations(key, *, width: Size = 30, points: Size = 4, steps: Count = 60):
    r"""A factor 1/sqrt(N) in front is a start of variance 1/N, and a rate of the outer weights N times smaller.

    $N^{-1/2}\sum_nC^n\sigma(W^n\cdot x)$ with $C\sim\mathcal N(0,1)$, and $\sum_n\tilde C^n\sigma(W^n\cdot x)$ with
    $\tilde C=C/\sqrt N\sim\mathcal N(0,\frac1N)$, are one function at the start. They remain so under SGD of rate
    $\eta$ on $(C,W)$ exactly if the second has the rate $\eta/N$ on $\tilde C$ and $\eta$ on $W$ (M, section 19.3,
    speaks of the start only). With one rate for all weights they part: the outer layer learns $N$ times faster.
    """

    @jax.jit
    def measure(key):
        data_key, net_key, order_key = jax.random.split(key, 3)
        x, y = _data(data_key, points, 3)
        net = draw_shallow(width, 3, key=net_key, outer="normal")
        order = jax.random.randint(order_key, (steps,), 0, points)
        # a step of shallow_sgd has the rate eta / N
        scaled, _ = shallow_sgd(net, x, y, 0.03 * width, order)

        def plain(outer_rate):
            def step(theta, i):
                slope = jax.grad(lambda t: (y[i] - _outputs(t, x[i])) ** 2 / 2)(theta)
                theta = theta[0] - outer_rate * slope[0], theta[1] - 0.03 * slope[1]
                return theta, _outputs(theta, x)

            start = net.outer / jnp.sqrt(net.width), net.inner
            return jnp.concatenate([_outputs(start, x)[None], jax.lax.scan(step, start, order)[1]])

        return scaled, jax.vmap(plain)(jnp.array([0.03 / width, 0.03]))

    scaled, (same, other) = measure(key)
    yield equal("outputs at the start", same[0], scaled[0])
    yield equal("outputs along the path", same.T, scaled.T, rtol=1e-9, atol=1e-11, along="step")
    yield control(
        "the rate η/N for the outer weights: here η",
        equal("outputs along the path", other.T, scaled.T, rtol=1e-3, along="step"),
    )


@claim(rows=("M19.09", "M19.11", "M19.12", "M19.36"))
def output_evolution(key, *, width: Size = 20, points: Size = 4):
    r"""Under gradient flow the outputs move as the kernel of the units says, at every width.

    $\Lambda(\theta)=\frac1{2M}\sum_m(y_m-m(x_m))^2$, $\dot\theta=-\eta\nabla\Lambda$. At every point $x$, also outside
    of the data, $$\frac d{dt}m(x;\theta_t)=\frac\eta M\sum_m(y_m-m(x_m;\theta_t))\,K(x,x_m;\mu_t),$$
    $K(x,x';\mu)=\langle\sigma(w\cdot x)\sigma(w\cdot x')+c^2\sigma'(w\cdot x)\sigma'(w\cdot x')\,x\cdot x',\mu\rangle$
    with the empirical measure $\mu_t$ of the units: $K=JJ^\top$ with the Jacobian of the outputs. Explicit Euler steps
    of length $h$ are gradient descent of rate $\eta h$, and $\Lambda(\theta_0)-\Lambda(\theta_T)=\eta\int_0^T\|\nabla
    \Lambda\|^2dt$. If the inner weights are held, the outputs move otherwise.
    """
    eta, h, count = 1.5, 0.02, 100
    times = np.arange(count + 1) * h

    @jax.jit
    def measure(key):
        data_key, new_key, net_key = jax.random.split(key, 3)
        x, y = _data(data_key, points, 3)
        everywhere = jnp.concatenate([x, jax.random.normal(new_key, (2, 3))])
        net = draw_shallow(width, 3, key=net_key)
        theta = net.outer, net.inner

        def observe(net):
            return net(everywhere), jnp.stack(tangent_parts(net, everywhere, x))

        (outputs, parts), _ = shallow_flow(net, x, y, eta, times, substeps=4, observe=observe)
        speeds = eta / points * jnp.einsum("tpij,tj->tpi", parts, y - outputs[:, :points])

        # the same by autodiff of the loss, of the outputs, and another integrator
        def predict(flat, x):
            return ScaledNetwork(flat[:width], flat[width:].reshape(width, 3))(x)

        problem = Problem(lambda t, x, y: eta * jnp.mean((y - predict(t, x)) ** 2) / 2, (x, y), _flat(theta))
        flow = gradient_flow(problem, times[::20], substeps=80)
        jacobian = jax.jacrev(lambda t: predict(t, everywhere))(_flat(theta))
        euler = [a + 0.1 * v for a, v in zip(theta, shallow_velocity(net, x, y, eta), strict=True)]
        # at the start, with all weights moving and with the inner ones held
        outward, inward = shallow_velocity(net, x, y, eta)
        pushes = [
            jax.jvp(lambda t: predict(t, everywhere), (_flat(theta),), (_flat((outward, on * inward)),))[1]
            for on in (1.0, 0.0)
        ]
        return (
            (y, outputs, speeds),
            pushes,
            (flow.value, flow.dissipated),
            (jacobian @ jacobian.T, tangent_kernel(net, everywhere)),
            (_flat(euler), _flat(theta) - 0.1 * problem.gradient(_flat(theta))),
        )

    (y, outputs, speeds), (free, held), (value, dissipated), kernels, steps = measure(key)
    yield equal("kernel of the units against Jacobians", *kernels, rtol=1e-11)
    yield equal("Euler's step against a step of descent", *steps, rtol=1e-12)
    # central differences of fourth order: twice the distance has sixteen times the error, so that what the two differ
    # by is fifteen times the error of the finer one
    measured, coarser = _differences(outputs, 1, h), _differences(outputs, 2, h)
    miss = float(jnp.max(jnp.abs(measured - coarser)))
    outer, inner = speeds[4:-4, 0].T, speeds[4:-4, 1].T
    close = {"rtol": 0, "atol": miss, "x": times[4:-4], "along": "time"}
    yield equal("speed of the outputs", measured, outer + inner, **close)
    yield equal("energy dissipated", dissipated[1:], value[0] - value[1:], rtol=1e-6, x=times[20::20], along="time")
    loss = eta * jnp.mean((outputs[::20, :points] - y) ** 2, 1) / 2
    yield equal("loss by two integrators", loss, value, rtol=1e-6, x=times[::20], along="time")
    start = jnp.sum(speeds[0], 0)
    yield equal("speed of the outputs at the start", free, start)
    yield control(
        "all weights move: here the inner ones are held",
        equal("speed of the outputs at the start", held, start, rtol=1e-3),
    )


def _differences(path, stride, h):
    """Time derivatives of a path (times, points), all but the first and last four: (points, times - 8)."""
    at = np.arange(4, path.shape[0] - 4)
    near, far = (path[at + s] - path[at - s] for s in (stride, 2 * stride))
    return ((8 * near - far) / (12 * stride * h)).T


def _flat(theta):
    return jnp.concatenate([jnp.ravel(t) for t in theta])


@claim(rows=("M19.10", "M19.11", "M19.13"))
def gaussian_start(key, *, repetitions: Count = 20_000):
    r"""The outputs of a random shallow network have the same covariance at every width, and are Gaussian when wide.

    For independent units with $\mathbb E[c\,\sigma(w\cdot x)]=0$ (for which $c$ of mean 0, independent of $w$, is
    enough, and a mean of 0 of $(c,w)$ is not): $\mathbb E[m_0(x)m_0(x')]=\langle c^2\sigma(w\cdot x)\sigma(w\cdot
    x'),\mu_0\rangle$ at every $N$, $\mathbb E[m_0^4]=3(1-\frac1N)\Sigma^2+\frac1N\mathbb E\zeta^4$ with
    $\zeta=c\,\sigma(w\cdot x)$, and $m_0\to\mathcal N(0,\Sigma)$, jointly over the points. The kernel of the units has
    mean $K(\cdot,\cdot;\mu_0)$ at every $N$. If $c$ depends on $w$, the mean of the output grows as $\sqrt N$.
    """

    @jax.jit
    def measure(key):
        data_key, net_key, pair_key = jax.random.split(key, 3)
        # of one length, so that all outputs have one law
        x = jax.random.normal(data_key, (3, 3))
        x = 1.5 * x / jnp.linalg.norm(x, axis=1, keepdims=True)

        def draw(key, width):
            net = draw_shallow(64, 3, key=key, width=width)
            tied = ScaledNetwork(jnp.tanh(net.inner @ x[0]), net.inner)
            return net(x), tangent_kernel(net, x), tied(x[0])

        keys = jax.random.split(net_key, (2, repetitions))
        found = jax.lax.map(lambda pair: jax.vmap(lambda k: draw(k, pair[1]))(pair[0]), (keys, jnp.array([2.0, 64.0])))
        # a fourth moment spreads most, and two units are drawn at once: ten times as many
        pairs = jax.vmap(lambda k: draw_shallow(2, 3, key=k)(x))(jax.random.split(pair_key, 10 * repetitions))
        return x, found, pairs

    x, (outputs, kernels, tied), pairs = measure(key)
    sigma = start_covariance(x)
    u = jnp.array([[1.0, 0.0, 0.0], [1.0, 1.0, 1.0], [1.0, -0.5, 2.0], [1.0, -1.0, 0.5]])
    spread = jnp.einsum("ai,ij,aj->a", u, sigma, u)
    # wrong: the factor 1/N in front
    yield estimate("second moments of combinations at width 2", (outputs[0] @ u.T) ** 2, spread, wrong=spread / 2)
    yield estimate("mean at width 2", outputs[0], 0.0, wrong=0.2)
    nodes, weights = HERMITE
    fourth = 9 / 5 * float(jax.lax.erf(jnp.asarray(1.5 * nodes)) ** 4 @ weights / weights.sum())
    top = float(sigma[0, 0])
    predicted = 3 * (1 - 1 / 2) * top**2 + fourth / 2
    yield estimate("fourth moment at width 2", jnp.mean(pairs**4, 1), predicted, wrong=3 * top**2)
    # wrong: without the part of the inner weights
    forms = jnp.einsum("ai,rij,aj->ra", u, kernels[0], u)
    drive = jnp.einsum("ai,ij,aj->a", u, limit_kernel(x), u)
    yield estimate("kernel of the units at width 2", forms, drive, wrong=spread)
    yield _normal_law("output at width 64", outputs[1, :, 0], top)
    yield _normal_law("a combination of outputs at width 64", outputs[1] @ u[2], float(spread[2]))
    yield control(
        "outer weights of mean zero given the inner ones: here tied to them",
        estimate("mean output", tied[1], 0.0, wrong=10.0),
    )


def _normal_law(name, samples, variance):
    from scipy.stats import norm

    def law(factor):
        return lambda t: norm.cdf(t, scale=np.sqrt(factor * variance))

    return same_law(name, samples, law(1.0), wrong=law(1.3))


@claim(rows=("M19.33",))
def sigmoid_layer_variance(key, *, units: Size = 6, repetitions: Count = 20_000):
    r"""The variance of a sigmoid layer of a Gaussian input, exactly and to first order.

    $X\sim\mathcal N(0,1)$, $Y=\sum_nc^n\sigma(w^nX+b^n)$: $\operatorname{Var}Y=\sum_{n,m}c^nc^m\operatorname{Cov}(
    \sigma(w^nX+b^n),\sigma(w^mX+b^m))$, a one-dimensional integral, and $(\sum_nc^nw^n\sigma'(b^n))^2$ up to the fourth
    order in a common scale of the $w^n$. For a kinked activation at its kink the first-order answer is off by the order
    of the variance itself.
    """
    scales = 2.0 ** -np.arange(3, 9)

    @jax.jit
    def measure(key):
        unit_key, b_key, x_key = jax.random.split(key, 3)
        # of one sign and with small offsets, where the coefficient of the fourth order does not vanish
        c, w = jax.random.uniform(unit_key, (2, units), minval=1.0, maxval=3.0)
        b = jax.random.uniform(b_key, (units,), minval=-0.3, maxval=0.3)
        x = jax.random.normal(x_key, (repetitions,))
        y = jax.nn.sigmoid(x[:, None] * w + b) @ c

        def error(scale, offsets, activation):
            exact = gaussian_output_variance(c, scale * w, offsets, activation=activation)
            return jnp.abs(exact - linearised_output_variance(c, scale * w, offsets, activation=activation))

        logistic = jax.vmap(lambda s: error(s, b, "logistic"))(scales)
        kinked = jax.vmap(lambda s: error(s, 0 * b, jnp.abs))(scales)
        exact = gaussian_output_variance(c, w, b), linearised_output_variance(c, w, b)
        return (y - jnp.mean(y)) ** 2, exact, logistic, kinked

    squares, (exact, linear), errors, kinked = measure(key)
    yield estimate("variance of the output", squares * repetitions / (repetitions - 1), exact, wrong=linear)
    yield rate("error of the first order", scales, errors, 4.0, tolerance=0.1, along="scale")
    yield control(
        "a smooth activation: here the absolute value at its kink",
        rate("error of the first order", scales, kinked, 4.0, tolerance=0.1),
    )
