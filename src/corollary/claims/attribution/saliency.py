"""Saliency maps by gradients: where they agree, when they add up, and that they find what matters."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from corollary.attribution import gradient_input, integrated_gradients, saliency
from corollary.evidence import Count, Size, at_least, at_most, claim, control, equal


class Quadratic(eqx.Module):
    """A quadratic form and a linear one."""

    a: jax.Array
    w: jax.Array

    def __call__(self, x):
        return x @ self.a @ x + self.w @ x + 1.0


@claim(rows=("T10.21",))
def gradient_maps(key, *, features: Size = 6, points: Size = 5):
    r"""Gradients, gradients times inputs, and integrated gradients: equal where the network is linear along the path.

    For $f=w\cdot x+c$ they are $|w_j|$, $w_jx_j$ and $w_j(x_j-b_j)$. For $f=x^\top Ax$, $A$ symmetric, integrated
    gradients from 0 are $x_j(Ax)_j$. They sum to $f(x)-f(b)$ for every network, here to $10^{-6}$ of the largest change
    along the path, also with kinks. For a ReLU network without biases and the baseline 0 the gradient does not change
    along the path, and they are the gradient times the input; with biases they are not.
    """
    tolerance = 1e-6

    @eqx.filter_jit
    def maps(network, x, b):
        """The three maps, and what the last sums to less what it should, over the largest change along the path."""
        integrated = integrated_gradients(network, x, b, tolerance=tolerance).values
        path = jax.vmap(jax.vmap(network))(b + jnp.linspace(0, 1, 513)[:, None, None] * (x - b))
        off = (integrated.sum(1) - (path[-1] - path[0])) / jnp.abs(path - path[0]).max(0)
        return jnp.stack([saliency(network, x), gradient_input(network, x), integrated]), off

    w_key, a_key, x_key, b_key, n_key = jax.random.split(key, 5)
    w, a = jax.random.normal(w_key, (features,)), jax.random.normal(a_key, (features, features))
    x, b = jax.random.normal(x_key, (points, features)), jax.random.normal(b_key, (features,))
    smooth, kinked = (eqx.nn.MLP(features, "scalar", 16, 2, activation=f, key=n_key) for f in (jnp.tanh, jax.nn.relu))
    zero = jnp.zeros(features)
    plain = jax.tree.map(lambda leaf: 0 * leaf if eqx.is_array(leaf) and leaf.ndim == 1 else leaf, kinked)
    linear, _ = maps(Quadratic(jnp.zeros((features, features)), w), x, b)
    quadratic, _ = maps(Quadratic(a + a.T, zero), x, zero)
    off = [maps(network, x, b)[1] for network in (smooth, kinked)]
    unbiased, biased = (maps(network, x, zero)[0] for network in (plain, kinked))
    slopes = jnp.stack([jnp.broadcast_to(jnp.abs(w), x.shape), w * x, w * (x - b)])
    yield equal("linear function: the three maps", linear, slopes, rtol=0, atol=1e-13)
    # four nodes integrate polynomials up to degree seven
    yield equal("quadratic form: integrated gradients", quadratic[2], x * (x @ (a + a.T)), rtol=0, atol=1e-12)
    yield at_most("tanh and ReLU: the sums are off by", jnp.abs(jnp.stack(off)), tolerance)
    yield equal("ReLU without biases: gradients times inputs", unbiased[2], unbiased[1], rtol=0, atol=1e-12)
    yield control(
        "no biases: here there are some", equal("gradients times inputs", biased[2], biased[1], rtol=0, atol=1e-12)
    )


@claim(rows=("T10.21",))
def planted_features(
    key, *, networks: Size = 8, features: Size = 50, planted: Size = 5, points: Size = 600, steps: Count = 300
):
    r"""After training the mean saliency tells the features that matter from the others.

    Labels are the sign of a linear function of 5 of 50 normal features. A network of one hidden layer is trained on
    them; a coordinate that matters then has a larger mean saliency than one that does not, for at least 95 % of the
    pairs of such coordinates. In a network that was not trained the order is one of chance.
    """

    def one(key):
        net_key, x_key, w_key = jax.random.split(key, 3)
        start = eqx.nn.MLP(features, "scalar", 16, 1, activation=jnp.tanh, key=net_key)
        x = jax.random.normal(x_key, (points, features))
        w = jnp.where(jnp.arange(features) < planted, jax.random.rademacher(w_key, (features,)), 0)
        y = jnp.sign(x @ w)
        params, fixed = eqx.partition(start, eqx.is_array)
        optimiser = optax.adam(1e-2)

        def loss(params):
            return jnp.mean(jax.nn.softplus(-y * jax.vmap(eqx.combine(params, fixed))(x)))

        def step(state, _):
            params, memory = state
            updates, memory = optimiser.update(jax.grad(loss)(params), memory)
            return (optax.apply_updates(params, updates), memory), None

        (trained, _), _ = jax.lax.scan(step, (params, optimiser.init(params)), length=steps)

        def ordered(params):
            size = saliency(eqx.combine(params, fixed), x[:100]).mean(0)
            return jnp.mean(size[:planted, None] > size[planted:])

        return ordered(trained), ordered(params)

    trained, untrained = jax.jit(lambda key: jax.vmap(one)(jax.random.split(key, networks)))(key)
    yield at_least("share of the pairs in order, mean over networks", np.asarray(trained).mean(), 0.95)
    yield control(
        "a trained network: here one at its start",
        at_least("share of the pairs in order, mean over networks", np.asarray(untrained).mean(), 0.95),
    )
