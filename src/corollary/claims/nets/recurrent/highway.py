"""Highways: gates that carry a signal, and its gradient, through many layers."""

import jax
import jax.numpy as jnp

from corollary.evidence import Size, at_least, at_most, claim, control, equal
from corollary.nets.activations import tanh
from corollary.nets.initialisations import uniform_fan_in
from corollary.nets.layers import FullyConnected
from corollary.nets.recurrent import HighwayLayer


@claim(rows=("M13.24",))
def gradient_through_many_layers(key, *, units: Size = 32, depth: Size = 50):
    r"""The gradient passes through fifty highway layers and not through fifty plain ones.

    $y=T(x)\odot H(x)+(1-T(x))\odot x$ with $T=S(W_Tx+b_T)$. For $b_T\to-\infty$ the layer is the identity, with the
    identity as its Jacobian. With gates that begin at $S(b)$ each layer carries the share $1-S(b)$ of the gradient, and
    adds little else: after $L$ layers about $(1-S(b))^L$ is left, 0.09 of it after 50 for $b=-3$ (but only 0.002 for
    $b=-2$). With the same weights, uniform of variance $1/(3n)$, and $|\phi'|\le1$, a plain layer multiplies the
    expected square of a gradient by at most $\frac13$, so that of 50 layers less than $10^{-4}$ is left.
    """

    biases = (-2.0, -3.0, -4.0)

    @jax.jit
    def measure(key):
        layer_key, x_key = jax.random.split(key)
        keys = jax.random.split(layer_key, depth)
        x, target = jax.random.normal(x_key, (2, units))

        def gradients(layer):
            """Norms of the gradients by the inputs of all layers, for half the squared distance to a target."""

            def forwards(h, k):
                return layer(k)(h), h

            last, inputs = jax.lax.scan(forwards, x, keys)

            def backwards(g, at):
                h, k = at
                g = jax.vjp(layer(k), h)[1](g)[0]
                return g, jnp.linalg.norm(g)

            return jax.lax.scan(backwards, last - target, (inputs, keys), reverse=True)[1]

        def highway(k, bias):
            return HighwayLayer(units, key=k, gate_bias=bias, initialisation=uniform_fan_in)

        def plain(k):
            return FullyConnected(units, units, tanh, key=k)

        shut = lambda x: highway(keys[0], -40.0)(x)  # noqa: E731
        carried = jax.vmap(lambda bias: gradients(lambda k: highway(k, bias)))(jnp.array(biases))
        return carried, gradients(plain), (shut(x), x), jax.jacrev(shut)(x)

    carried, plain, identity, jacobian = measure(key)
    # gates of the size e^-40 e^5 at most
    yield equal("gates shut: the identity", *identity, atol=1e-11)
    yield equal("gates shut: Jacobian", jacobian, jnp.eye(units), atol=1e-11)
    left = carried[:, 0] / carried[:, -1]
    predicted = (1 - jax.nn.sigmoid(jnp.array(biases))) ** (depth - 1)
    # what the layers add to the gradient has in each the relative size T sqrt(1/3) and T |H - x| sqrt(1/3): together,
    # over 50 layers, less than the carried part itself; a factor of 4 is four times that
    yield at_most("highway, bias -2, -3, -4: first gradient over the last", left, 4 * predicted)
    yield at_least("highway, bias -2, -3, -4: first gradient over the last, from below", left, predicted / 4)
    yield at_most("plain: first gradient over the last", plain[0] / plain[-1], 1e-4)
    yield control("plain layers", at_least("first gradient over the last", plain[0] / plain[-1], predicted[0] / 4))
