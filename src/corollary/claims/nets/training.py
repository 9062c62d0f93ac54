"""Learning as a loop, and the change of coordinates that a network learns."""

import jax
import jax.numpy as jnp
import numpy as np
import optax

from corollary.claims.nets._pictures import curves, scatter
from corollary.data import linear_data
from corollary.evidence import Count, Size, at_least, at_most, claim, control, equal, estimate
from corollary.linear import critical_step, descent_path, linearly_separable, max_margin, squared_loss
from corollary.nets import MLP, SigmoidMLP, parameter_count, tanh, train
from corollary.network import Network


def _rings(key, n):
    """Two concentric rings, labels -1 (inside) and 1."""
    angle_key, radius_key = jax.random.split(key)
    angle = 2 * jnp.pi * jax.random.uniform(angle_key, (n,))
    side = jnp.where(jnp.arange(n) < n // 2, -1.0, 1.0)
    radius = 1.5 + 0.5 * side + 0.3 * jax.random.uniform(radius_key, (n,), minval=-1.0)
    return jnp.stack([radius * jnp.cos(angle), radius * jnp.sin(angle)], 1), side


@claim(rows=("B02.01",), full={"n": 400, "steps": 4000})
def coordinate_change(key, *, n: Size = 100, steps: Count = 600):
    r"""Data that no line separates become separable in other coordinates, and a network finds such coordinates.

    Classes are linearly separable if some $(\theta,b)$ has $y_i(\theta^\top x_i+b)>0$ for all points. Concentric rings
    are not; in polar coordinates they are, and so are the signs of a product in the coordinates $(x_1,x_2,x_1x_2)$. The
    last hidden layer of a trained 2-16-2-1 tanh network, the best of eight, separates the rings too.
    With shuffled labels the same change of coordinates does not help.
    """
    ring_key, shuffle_key, net_key, xor_key = jax.random.split(key, 4)
    x, y = _rings(ring_key, n)
    shuffled = jax.random.permutation(shuffle_key, y)
    corners = jax.random.uniform(xor_key, (n, 2), minval=-1.0, maxval=1.0)
    corners = corners + 0.2 * jnp.sign(corners)
    xor = jnp.sign(corners[:, 0] * corners[:, 1])
    optimiser = optax.adam(1e-2)

    @jax.jit
    def measure(x, y, corners, key):
        polar = jnp.stack([jnp.linalg.norm(x, axis=1), jnp.arctan2(x[:, 1], x[:, 0])], 1)
        product = jnp.concatenate([corners, (corners[:, 0] * corners[:, 1])[:, None]], axis=1)
        # of eight starts the one with the least loss: all of them stuck is one in ten to the eighth
        one = lambda key: train(MLP((2, 16, 2, 1), tanh, key=key), "logistic", (x, y), optimiser, steps=steps)  # noqa: E731
        fitted = jax.vmap(one)(jax.random.split(key, 8))
        best = jax.tree.map(lambda a: a[jnp.argmin(fitted.losses[:, -1])], fitted.network)
        hidden = jax.vmap(lambda x: best.activations(x)[2])(x)
        return polar, product, hidden

    polar, product, hidden = measure(x, y, corners, net_key)
    separable = [
        linearly_separable(points, labels)
        for points, labels in ((x, y), (corners, xor), (polar, y), (product, xor), (hidden, y))
    ]
    yield equal("rings and products in their own coordinates are not separable", separable[:2], False, rtol=0, atol=0)
    yield equal("polar, product and hidden coordinates: separable", separable[2:], True, rtol=0, atol=0)
    best = max_margin(polar, y)
    yield at_least("margin in polar coordinates", jnp.min(y * (polar @ best.w + best.b)), 0.0)
    # the rings keep a distance of 0.4 in the radius
    yield at_least("greatest margin in polar coordinates", best.margin, 0.2)
    yield control(
        "the labels say on which ring a point lies: here shuffled",
        equal("polar coordinates separable", linearly_separable(polar, shuffled), True, rtol=0, atol=0),
    )
    yield scatter("raw coordinates", x, y > 0, names=("x1", "x2"))
    yield scatter("hidden coordinates of the trained network", hidden, y > 0, names=("h1", "h2"))


@claim(rows=("B02.02",))
def learning_loop(key, *, n: Size = 40, steps: Count = 60, batch: Size = 8):
    r"""The training loop takes exactly the steps of gradient descent, and its mini-batches are unbiased.

    On least squares the loop with plain gradient descent follows
    $\theta_k=\theta^*+(I-2\eta A)^k(\theta_0-\theta^*)$, and the loss falls at every step below the critical one. The
    mean of many mini-batch steps from one point is the full step. The layers of a network $(2,5,3,1)$ hold 2, 5, 3 and
    1 numbers.
    """
    data_key, start_key, batch_key = jax.random.split(key, 3)
    x, y = linear_data(jnp.array([1.0, -2.0, 0.5]), n, key=data_key)
    # a start at which all entries of the gradient, twice A(θ - θ*), are 2 or -2: no entry of the full step is small
    lifted = jnp.concatenate([x, jnp.ones((n, 1))], 1)
    signs = jax.random.rademacher(start_key, (3,), float)
    start = jnp.linalg.lstsq(lifted, y)[0] + jnp.linalg.solve(lifted.T @ lifted / n, signs)
    step = 0.1
    optimiser = optax.sgd(step)

    model = Network(lambda theta, x: x @ theta[:2] + theta[2], start)
    loss = lambda f, y: (f - y) ** 2  # noqa: E731
    path = train(model, loss, (x, y), optimiser, steps=steps, measure=lambda model: model.params).record
    yield at_most("the step is below the critical one", step, critical_step(x))
    yield equal("parameters on the way", path, descent_path(x, y, start, step, steps), atol=1e-11)
    losses = jax.vmap(lambda t: squared_loss(t, x, y))(path)
    yield at_most("loss, step after step", losses[1:], losses[:-1], along="iteration")
    keys = jax.random.split(batch_key, 4000)

    # the examples sorted by their label: the first half of them has the lower labels
    order = jnp.argsort(y)
    low = x[order[: n // 2]], y[order[: n // 2]]

    @jax.jit
    def once(keys, model, x, y):
        one = lambda key: train(model, loss, (x, y), optimiser, steps=1, key=key, batch_size=batch)  # noqa: E731
        return jax.vmap(one)(keys).network.params

    yield estimate("mean of mini-batch steps: the full step", once(keys, model, x, y), path[1], wrong=start)
    yield control(
        "batches are drawn from all examples: here from those with low labels",
        estimate("mean of mini-batch steps", once(keys, model, *low), path[1], wrong=start),
    )
    model = MLP((2, 5, 3, 1), tanh, key=key)
    sizes = [h.size for h in model.activations(x[0])]
    yield equal("sizes of the representations", sizes, [2, 5, 3, 1], rtol=0, atol=0)
    slope = jax.grad(lambda m: jnp.mean(jax.vmap(m)(x)[:, 0] ** 2))(model)
    yield equal("parameters of the network and of its gradient", parameter_count(slope), parameter_count(model))


@claim(rows=("B02.17",), full={"steps": 20_000})
def sigmoid_network(key, *, units: Size = 8, points: Size = 50, steps: Count = 1500):
    r"""A network of one hidden layer of logistic units without biases, and what it learns of a sine.

    $f(x;\beta,w)=\sum_{j=1}^m\beta_j\sigma(w_j\cdot x)$ has $m(n+1)$ parameters. With a constant input it has biases
    and fits $\sin x$ on $[-3,3]$; the best constant has the mean squared error $\mathrm{var}(\sin x)$. Without the
    constant input $f(x)+f(-x)=\sum_j\beta_j$ for every $x$, so that no even function but a constant can be fitted.
    """
    x = jnp.linspace(-3.0, 3.0, points)
    lifted, bare = jnp.stack([x, jnp.ones(points)], 1), x[:, None]
    optimiser = optax.adam(0.03)

    def loss(f, y):
        return (f - y) ** 2

    @jax.jit
    def measure(key):
        sine = train(SigmoidMLP(2, units, key=key), loss, (lifted, jnp.sin(x)), optimiser, steps=steps)
        even = train(SigmoidMLP(1, units, key=key), loss, (bare, jnp.cos(x)), optimiser, steps=steps)
        free = train(SigmoidMLP(2, units, key=key), loss, (lifted, jnp.cos(x)), optimiser, steps=steps)
        formula = sum(sine.network.outer[j] / (1 + jnp.exp(-lifted @ sine.network.hidden[j])) for j in range(units))
        return sine.losses, even.losses, free.losses, jax.vmap(sine.network)(lifted), formula, even.network

    sine, even, free, fit, formula, model = measure(key)
    yield equal("the formula", fit, formula)
    yield equal("number of parameters", parameter_count(SigmoidMLP(2, units, key=key)), units * 3, rtol=0, atol=0)
    yield at_most("error for the sine, over that of a constant", sine[-1] / jnp.var(jnp.sin(x)), 0.05)
    mirrored = jax.vmap(model)(bare) + jax.vmap(model)(-bare)
    yield equal("f(x) + f(-x) without a constant input", mirrored, model.outer.sum())
    yield at_least("error for the cosine without a constant input", even, jnp.var(jnp.cos(x)), along="step")
    yield control(
        "there is no constant input: here there is one",
        at_least("error for the cosine", free, jnp.var(jnp.cos(x)), along="step"),
    )
    yield curves("fit of the sine", np.asarray(x), {"sin x": np.sin(x), f"{units} units": fit})
