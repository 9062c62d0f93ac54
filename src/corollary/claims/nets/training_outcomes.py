"""What comes out of a training: other parameters every time, no mean of them, or nothing at all."""

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax.flatten_util import ravel_pytree

from corollary.evidence import Count, Size, at_least, at_most, claim, control, equal
from corollary.nets import MLP, ShallowNetwork, empirical_risk, flip_hidden, identity, leaky_relu, relu, tanh, train


def _squared(f, y):
    return jnp.sum((f - y) ** 2)


def _ensemble(key, networks, steps, activation, points=40):
    """Networks of ten units, trained from different starts on one wave: parameters (k, p), predictions (k, n), ..."""
    x = jnp.linspace(-1, 1, points)[:, None]
    y = jnp.sin(jnp.pi * x[:, 0])
    if activation is identity:
        y = 0.3 + 0.5 * x[:, 0]

    def one(key):
        sizes = (1, 1) if activation is identity else (1, 10, 1)
        return train(MLP(sizes, activation, key=key), _squared, (x, y), optax.adam(0.02), steps=steps).network

    models = jax.vmap(one)(jax.random.split(key, networks))
    parameters = jax.vmap(lambda m: ravel_pytree(eqx.filter(m, eqx.is_inexact_array))[0])(models)
    predict = jax.vmap(lambda m: jax.vmap(m)(x)[:, 0])
    mean = jax.tree.map(lambda a: a.mean(0), models, is_leaf=eqx.is_inexact_array)
    return parameters, predict(models), jax.vmap(mean)(x)[:, 0], y


@claim(rows=("M18.40",))
def two_trainings(key, *, networks: Size = 20, steps: Count = 1500):
    r"""Two trainings of the same network end at other parameters and at nearly the same function.

    Ten tanh units learn $\sin\pi x$ on 40 points of $[-1,1]$ by Adam from random starts: the loss is not convex, units
    may be exchanged and signs flipped, so the parameters differ (the median pair has a cosine below 0.5, and is farther
    apart than half their norm) while the predictions of every pair have a correlation above 0.98. In linear regression
    there is one minimiser, and all trainings end there.
    """

    @jax.jit
    def measure(key):
        parameters, predictions, _, _ = _ensemble(key, networks, steps, tanh)
        unit = parameters / jnp.linalg.norm(parameters, axis=1, keepdims=True)
        apart = jnp.linalg.norm(parameters[:, None] - parameters, axis=-1) / jnp.linalg.norm(parameters, axis=1)
        straight, _, _, _ = _ensemble(key, networks, steps, identity)
        pairs = jnp.triu_indices(networks, 1)
        return (unit @ unit.T)[pairs], apart[pairs], jnp.corrcoef(predictions)[pairs], straight

    cosine, apart, correlation, straight = measure(key)
    yield at_most("median cosine of two parameter vectors", jnp.median(cosine), 0.5)
    yield at_least("median distance over the norm", jnp.median(apart), 0.5)
    yield at_least("correlation of the predictions", correlation, 0.98)
    # Adam with a constant rate comes this close to the minimiser in so many steps
    yield equal("linear regression: parameters", straight, jnp.array([[0.5, 0.3]]), atol=1e-3)
    yield control("a network with hidden units", equal("parameters of two trainings: cosine", cosine, 1.0, atol=1e-3))


@claim(rows=("M18.41",))
def averaged_parameters(key, *, networks: Size = 10, steps: Count = 1500):
    r"""The mean of the parameters of several networks is not an ensemble; the mean of their predictions is.

    The squared error of the averaged predictions is at most the average of the squared errors (Jensen). The network
    with the averaged parameters has in general nothing to do with either: a tanh network and its copy with all hidden
    units flipped compute the same function, and the mean of their parameters computes a constant. For linear models,
    trained or not, both averages agree.
    """

    @jax.jit
    def measure(key):
        train_key, other_key, x_key = jax.random.split(key, 3)
        _, predictions, of_mean, y = _ensemble(train_key, networks, steps, tanh)
        _, straight, straight_of_mean, _ = _ensemble(other_key, networks, 5, identity)
        x = jax.random.normal(x_key, (30, 1))
        network = MLP((1, 10, 1), tanh, key=other_key)
        flipped = flip_hidden(network, 0, -jnp.ones(10))
        middle = jax.tree.map(lambda a, b: (a + b) / 2, network, flipped)
        copies = [jax.vmap(n)(x)[:, 0] for n in (network, flipped, middle)]
        return predictions, of_mean, y, (straight.mean(0), straight_of_mean), copies, network.layers[1].bias

    predictions, of_mean, y, straight, (own, copy, middle), bias = measure(key)
    error = jnp.mean((predictions - y) ** 2, axis=1)
    yield at_most("error of the mean prediction", jnp.mean((predictions.mean(0) - y) ** 2), error.mean())
    yield at_least(
        "error with the mean parameters over the mean error", jnp.mean((of_mean - y) ** 2) / error.mean(), 10.0
    )
    yield equal("flipped copy: same function", copy, own)
    yield equal("mean of a network and its copy: a constant", middle, jnp.broadcast_to(bias, middle.shape))
    yield equal("linear models: mean parameters and mean prediction", *straight)
    yield control(
        "networks with hidden units", equal("mean parameters and mean prediction", of_mean, predictions.mean(0))
    )


@claim(rows=("M18.42",))
def dead_unit(key, *, steps: Count = 1000):
    r"""A ReLU network whose unit is off on all data never trains.

    $m(x)=c\,\mathrm{ReLU}(wx+b)$, squared error, one example with $wx+b<0$: all partial derivatives are zero, and
    gradient descent, momentum and Adam leave the parameters as they are, for ever. A leaky ReLU lets a gradient
    through, and trains.
    """

    @jax.jit
    def measure(key):
        w_key, c_key = jax.random.split(key)
        w = -jax.random.uniform(w_key, minval=0.2, maxval=1.0)
        c = jax.random.uniform(c_key, minval=0.5, maxval=1.5)
        x, y = jnp.ones((1, 1)), jnp.ones(1)

        def network(activation):
            made = ShallowNetwork(1, 1, activation, key=key)
            values = (w[None, None], jnp.zeros(1), c[None])
            return eqx.tree_at(lambda n: (n.hidden.weight, n.hidden.bias, n.outer), made, values)

        def loss(model):
            return empirical_risk(model, _squared, (x, y))

        def trained(activation, optimiser):
            start = network(activation)
            end = train(start, _squared, (x, y), optimiser, steps=steps)
            return ravel_pytree(start)[0], ravel_pytree(end.network)[0], loss(end.network)

        slope = ravel_pytree(jax.grad(loss)(network(relu)))[0]
        optimisers = (optax.sgd(0.1), optax.sgd(0.1, momentum=0.9), optax.adam(0.1))
        leaky = [trained(leaky_relu(0.1), o) for o in (optax.sgd(0.1), optax.adam(0.1))]
        return slope, [trained(relu, o) for o in optimisers], leaky

    slope, dead, leaky = measure(key)
    yield equal("gradient", slope, 0.0, rtol=0.0, atol=0.0)
    for name, (start, end, _) in zip(("gradient descent", "momentum", "Adam"), dead, strict=True):
        yield equal(f"parameters after {steps} steps of {name}", end, start, rtol=0.0, atol=0.0)
    yield at_most("leaky ReLU: loss after gradient descent and Adam", jnp.stack([l for _, _, l in leaky]), 1e-3)
    yield control("a leaky ReLU", equal("parameters after Adam", leaky[1][1], leaky[1][0]))
