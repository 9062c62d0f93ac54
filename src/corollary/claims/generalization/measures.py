"""What a trained network is near: other parameters that fit as well, and losses that change little."""

from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np

from corollary import Network
from corollary.evidence import Range, Size, at_least, at_most, claim, control, equal
from corollary.foundations import pair_slopes
from corollary.generalization import loss_stability, zero_loss_dimension


def _two_layers(theta, width, d, activation=jnp.tanh):
    """A function of one example, from all of its parameters in one array."""
    first, second = theta[: width * d].reshape(width, d), theta[width * d :]
    return lambda x: second @ activation(first @ x)


@claim(rows=("T05.06",))
def zero_loss_is_a_surface(
    key,
    *,
    n: Annotated[int, Range(2, 12)] = 6,
    d: Annotated[int, Range(2, 6)] = 3,
    width: Annotated[int, Range(8, 40)] = 12,
):
    r"""Near parameters that fit n numbers there are others that do: a surface of p - n dimensions.

    A two-layer network with $p>n$ parameters that interpolates $n$ points: the Jacobian of its outputs has rank $n$,
    and a step along its kernel, followed by Newton's method, ends at other parameters that fit the same points, at a
    distance. So the minimisers of the training loss are no finite class. With as many examples as parameters, only the
    point itself is left.
    """
    size = width * (d + 1)

    @jax.jit
    def walk(key):
        x_key, w_key, v_key = jax.random.split(key, 3)
        x, theta = jax.random.normal(x_key, (n, d)), jax.random.normal(w_key, (size,)) / np.sqrt(d)

        def outputs(theta):
            return jax.vmap(_two_layers(theta, width, d))(x)

        y, jacobian = outputs(theta), jax.jacobian(outputs)(theta)
        v = jax.random.normal(v_key, (size,))
        along = v - jacobian.T @ jnp.linalg.solve(jacobian @ jacobian.T, jacobian @ v)
        start = theta + 0.5 * along / jnp.linalg.norm(along)

        def newton(theta, _):
            slope = jax.jacobian(outputs)(theta)
            return theta - slope.T @ jnp.linalg.solve(slope @ slope.T, outputs(theta) - y), None

        end, _ = jax.lax.scan(newton, start, length=12)
        return x, theta, y, end, outputs(end)

    x, theta, y, end, fitted = walk(key)

    def network(theta):
        return Network(lambda theta, x: _two_layers(theta, width, d)(x), theta)

    yield equal("dimension of the set", zero_loss_dimension(network(theta), (x, y)).dimension, size - n)
    yield equal(
        "dimension of the set, at the other point", zero_loss_dimension(network(end), (x, y)).dimension, size - n
    )
    yield equal("outputs at the other point", fitted, y, atol=1e-10)
    yield at_least("its distance", jnp.linalg.norm(end - theta), 0.1)
    many = jax.random.normal(key, (2 * size, d))
    outputs = jax.vmap(network(theta))(many)
    yield control(
        "fewer examples than parameters: here twice as many",
        at_least("dimension of the set", zero_loss_dimension(network(theta), (many, outputs)).dimension, 1),
    )


@claim(rows=("T05.07", "T05.08"))
def squared_loss_in_a_ball(
    key, *, d: Annotated[int, Range(2, 20)] = 4, n: Size = 6, pairs: Annotated[int, Range(100, 100_000)] = 5000
):
    r"""In the unit ball the squared loss of a linear function changes by 2(‖x‖ + |y|)‖x‖ per step at most.

    $\ell(w)=(w\cdot x-y)^2$ has the gradient $2(w\cdot x-y)x$, so that $|\ell(w_1)-\ell(w_2)|\le C\|w_1-w_2\|$ with
    $C=2(\|x\|+|y|)\|x\|$ for $\|w_i\|\le1$, and this is reached where $w$ is opposite to $yx$. Around one $w$, with
    $r=w\cdot x-y$, no loss within $\rho$ differs by more than $\gamma=(|r|+\rho\|x\|)^2-r^2$, which is found by
    ascent, and $\gamma/\rho\le C$. On all of space there is no constant.
    """
    x_key, y_key, w_key, pair_key = jax.random.split(key, 4)
    x, y = jax.random.normal(x_key, (n, d)), jax.random.normal(y_key, (n,))
    lengths = jnp.linalg.norm(x, axis=1)
    constants = 2 * (lengths + jnp.abs(y)) * lengths

    @jax.jit
    def slopes(key, radius):
        a, b = jax.random.normal(key, (2, pairs, d))
        share = jax.random.uniform(key, (2, pairs, 1)) ** (1 / d)
        a, b = (radius * u * v / jnp.linalg.norm(v, axis=1, keepdims=True) for u, v in zip(share, (a, b), strict=True))

        def one(x, y, length):
            def loss(w):
                return (w @ x - y) ** 2

            worst = -jnp.sign(y) * x / length
            near = pair_slopes(loss, worst[None], 0.999 * worst[None])[0]
            return jnp.max(pair_slopes(loss, a, b)), near

        return jax.vmap(one)(x, y, lengths)

    inside, near = slopes(pair_key, 1.0)
    yield at_most("slopes between random points of the ball", inside, constants)
    # over a step of 0.001 the slope is that in its middle
    yield equal("slope at the end opposite to yx", near, 2 * (0.9995 * lengths + jnp.abs(y)) * lengths, rtol=1e-8)
    w = jax.random.normal(w_key, (d,))
    w, rho = 0.5 * w / jnp.linalg.norm(w), 0.3
    network = Network(lambda w, x: w @ x, w)
    squares = lambda output, target: (output - target) ** 2  # noqa: E731
    found = [loss_stability(network, squares, (x[i : i + 1], y[i : i + 1]), rho, key=key) for i in range(n)]
    r = jnp.abs(x @ w - y)
    yield equal("largest change within ρ", [f.gamma for f in found], (r + rho * lengths) ** 2 - r**2, rtol=1e-7)
    yield at_most("largest change over ρ", [f.constant for f in found], constants)
    yield control(
        "the ball has the radius 1: here 100",
        at_most("slopes between random points", slopes(pair_key, 100.0)[0], constants),
    )


@claim(rows=("T05.09",))
def squared_loss_of_a_relu_network(
    key, *, d: Annotated[int, Range(2, 20)] = 4, width: Annotated[int, Range(2, 50)] = 6, instances: Size = 5
):
    r"""How fast the squared loss of a two-layer ReLU network changes with its weights, in closed form.

    $\ell=(f-y)^2$ with $f=\sum_ra_r[w_r\cdot x]_+$: within a small distance $h$ of weights none of whose units is at
    its kink, the largest change is $2|f-y|\sqrt{\sum_r[w_r\cdot x]_+^2+\|x\|^2\sum_ra_r^2\mathbf 1[w_r\cdot x>0]}\cdot
    h$ to first order. The largest change is found by ascent. At a kink the loss changes faster than by the formula.
    """

    def squares(output, target):
        return (output - target) ** 2

    def relu_network(params):
        return Network(lambda p, x: p[1] @ jax.nn.relu(p[0] @ x), params)

    def formula(w, a, x, y):
        z = w @ x
        inner = jnp.sum(jnp.maximum(z, 0) ** 2) + x @ x * jnp.sum(jnp.where(z > 0, a**2, 0))
        return 2 * jnp.abs(a @ jnp.maximum(z, 0) - y) * jnp.sqrt(inner)

    found, predicted, at_kinks, kink_formula = [], [], [], []
    for one in jax.random.split(key, instances):
        w_key, a_key, x_key = jax.random.split(one, 3)
        w, a, x = (jax.random.normal(k, s) for k, s in ((w_key, (width, d)), (a_key, (width,)), (x_key, (d,))))
        w = w.at[0].set(jnp.sign(w[0] @ x) * w[0])  # one unit is active at least
        y = a @ jnp.maximum(w @ x, 0) + 1.0
        found.append(loss_stability(relu_network((w, a)), squares, (x[None], y[None]), 1e-6, key=one).constant)
        predicted.append(formula(w, a, x, y))
        # all other units at their kink, each of which helps in one direction
        flat = w.at[1:].set(w[1:] - jnp.outer(w[1:] @ x, x) / (x @ x))
        flat = flat.at[1:].set(flat[1:] - jnp.outer(flat[1:] @ x, x) / (x @ x))
        low = a.at[1:].set(-10 * jnp.abs(a[1:]))
        y = low @ jnp.maximum(flat @ x, 0) + 1.0
        at_kinks.append(loss_stability(relu_network((flat, low)), squares, (x[None], y[None]), 1e-6, key=one).constant)
        kink_formula.append(formula(w.at[1:].set(0), low, x, y))
    # of second order in the step of 1e-6, and the differences of losses near 1 lose ten digits
    yield equal("largest change over h", found, predicted, rtol=1e-4)
    yield control(
        "no unit at its kink: here all but one", equal("largest change over h", at_kinks, kink_formula, rtol=1e-4)
    )
