"""Jordan networks: regression on the last output, and what one lag cannot know."""

import jax
import jax.numpy as jnp
import numpy as np
import optax

from corollary.evidence import Count, Size, at_least, at_most, claim, control, equal, estimate
from corollary.nets import identity, train
from corollary.nets.recurrent import Elman, Jordan, Plant, Recurrent, lagged_table
from corollary.network import BatchLoss


@claim(rows=("M13.03", "M13.04"))
def teacher_forcing(key, *, steps: Size = 500, training: Count = 1500):
    r"""A Jordan network is trained as a regression on the table of lagged outputs, and finds its teacher.

    For $m=\tanh(w_1X_t+w_2Y_{t-1}+b)$ the loss over the rows that have a lag has the derivatives
    $-\frac2n\sum(Y_t-m_t)(1-m_t^2)(X_t,Y_{t-1},1)$. On a series made by $(0.3,0.8,-0.2)$ gradient descent from zero
    comes within $10^{-3}$ of these parameters with a mean squared error below $10^{-8}$; without the lag there is
    none that does.
    """
    teacher = np.array([0.3, 0.8, -0.2])

    def network(theta):
        model = Jordan(1, 1, key=jax.random.key(0))
        return jax.tree.unflatten(jax.tree.structure(model), [theta[None, :2], theta[2:]])

    @jax.jit
    def measure(key):
        x_key, theta_key = jax.random.split(key)
        xs = jax.random.normal(x_key, (steps, 1))
        ys = network(teacher).rollout(xs, jnp.zeros(1))
        theta = jax.random.normal(theta_key, (3,))
        slope = jax.grad(lambda theta: network(theta).loss(xs, ys))(theta)
        features, labels = (a[1:] for a in lagged_table(xs, ys))
        m = jnp.tanh(features @ theta[:2] + theta[2])
        error = (labels[:, 0] - m) * (1 - m**2)
        by_hand = -2 * jnp.array([*(error @ features), error.sum()]) / (steps - 1)

        def fit(lag):
            loss = BatchLoss(lambda theta, data: network(theta * jnp.array([1.0, lag, 1.0])).loss(*data))
            # curvatures are below 2 E(1 + X^2 + Y^2) < 6
            found = train(jnp.zeros(3), loss, (xs, ys), optax.sgd(0.3), steps=training)
            return found.network, loss(found.network, (xs, ys))

        return slope, by_hand, jax.vmap(fit)(jnp.array([1.0, 0.0]))

    slope, by_hand, (found, error) = jax.device_get(measure(key))
    yield equal("derivatives", slope, by_hand, rtol=1e-10, atol=1e-13)
    yield equal("parameters found", found[0], teacher, rtol=0, atol=1e-3)
    yield at_most("mean squared error", error[0], 1e-8)
    yield control("without the lag", at_most("mean squared error", error[1], 1e-8))


@claim(rows=("M13.03", "M13.05"))
def one_lag_is_not_enough(key, *, sequences: Size = 2000, training: Count = 200):
    r"""Where the observer hides part of the plant, every Jordan network has an error floor; an Elman network has none.

    The plant turns: $Z_t=AZ_{t-1}+(X_t,0)$ with $A=rR(\varphi)$ and normal inputs, and only $Y_t=Z_{t,1}$ is seen. All
    is Gaussian, so no function of $(X_t,Y_{t-1})$ predicts $Y_t$ with a smaller mean squared error than the linear one,
    $A_{12}^2(P_{22}-P_{12}^2/P_{11})$, where $P=APA^\top+ee^\top$ is the stationary covariance. An Elman network with
    two linear units is the plant itself.
    """
    r, angle, length = 0.8, 0.9, 40  # the start is forgotten: r^80 = 2e-8
    a = r * np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    b, size = np.array([[0.1], [0.0]]), 0.1

    @jax.jit
    def measure(key):
        x_key, net_key, run_key = jax.random.split(key, 3)
        xs = jax.random.normal(x_key, (sequences, length, 1))
        ys = jax.vmap(Recurrent(Plant(lambda z, x: a @ z + b @ x, jnp.zeros(2)), lambda z: z[:1]))(xs)
        elman = jax.vmap(Elman.of(a, b, None, jnp.eye(1, 2), None, identity))(xs)
        shown, asked = (xs[:, -1], ys[:, -2]), ys[:, -1]
        half = sequences // 2
        # the covariance of (X_t, Y_{t-1}) is diagonal: the linear predictor has these two coefficients
        covariance = jnp.linalg.solve(jnp.eye(4) - jnp.kron(a, a), (b @ b.T).ravel()).reshape(2, 2)
        coefficient = (a @ covariance)[0, 0] / covariance[0, 0]
        linear = (asked - b[0] * shown[0] - coefficient * shown[1])[:, 0]

        @BatchLoss
        def loss(model, data):
            x, last, y = data
            return jnp.mean((jax.vmap(model)(x, last) - y) ** 2) / size**2

        net = train(
            Jordan(1, 1, (8,), key=net_key),
            loss,
            tuple(v[:half] for v in (*shown, asked)),
            optax.adam(0.02),
            steps=training,
            key=run_key,
        ).network
        trained = jnp.mean((jax.vmap(net)(shown[0][half:], shown[1][half:]) - asked[half:]) ** 2)
        return elman - ys, covariance, linear**2, trained, jnp.mean(asked**2)

    rest, p, linear, trained, variance = jax.device_get(measure(key))
    floor = a[0, 1] ** 2 * (p[1, 1] - p[0, 1] ** 2 / p[0, 0])
    yield estimate("squared error of the best linear predictor", linear, floor, wrong=0.5 * floor)
    # six standard errors of a mean of squares of half as many normal numbers
    room = 6 * (2 / (sequences / 2)) ** 0.5
    yield at_least("mean squared error of a trained Jordan network", trained / floor, 1 - room)
    yield at_most("which did learn: its share of the variance", trained / variance, 0.95)
    yield equal("Elman network with two linear units", rest, 0.0, atol=1e-14)
    yield control("an Elman network", at_least("mean squared error", np.mean(rest**2) / floor, 1 - room))
