"""Networks as the texts write them, and the Gram matrix of their gradients, for the claims on wide networks."""

import jax
import jax.numpy as jnp

from corollary.kernels import Activation, Architecture, Dense


def dense_network(widths, activation="relu", *, inputs=None, weight_std=2**0.5, bias_std=0.0) -> Architecture:
    """Hidden layers of these widths and one output. `inputs`: the first layer is $Wx$, without the root of so many."""
    first = weight_std if inputs is None else inputs**0.5
    layers = [Dense(widths[0], first, bias_std), Activation(activation)]
    for width in widths[1:]:
        layers += [Dense(width, weight_std, bias_std), Activation(activation)]
    return Architecture([*layers, Dense(1, weight_std, bias_std)])


def gradient_gram(f, params):
    """Products of the gradients of the entries of f(params), (n,), in all parameters."""
    jacobian = jax.tree.leaves(jax.jacrev(f)(params))
    return sum(j.reshape(j.shape[0], -1) @ j.reshape(j.shape[0], -1).T for j in jacobian)


def both_passes(weights, back, x, width):
    r"""A ReLU network of two hidden layers, forward by `weights` and backward by the transposes of `back`.

    $g^{(h)}=\sqrt{2/m}\,\sigma(W^{(h)}g^{(h-1)})$ and $b^{(h)}=\sqrt{2/m}\,D^{(h)}W^{(h+1)\top}b^{(h+1)}$; the output,
    $(g^{(0)},g^{(1)},g^{(2)})$ and $(b^{(1)},b^{(2)},b^{(3)})$. Only the first `width` units of the matrices count,
    so that one program serves all widths.
    """
    on = jnp.arange(weights[0].shape[0]) < width
    scale = jnp.sqrt(2 / width)

    def one(x):
        f1 = weights[0] @ x
        g1 = scale * jax.nn.relu(f1) * on
        f2 = weights[1] @ g1
        g2 = scale * jax.nn.relu(f2) * on
        b2 = scale * (f2 > 0) * on * back[2]
        b1 = scale * (f1 > 0) * on * (back[1].T @ b2)
        return weights[2] @ g2, (x, g1, g2), (b1, b2, jnp.ones(1))

    return jax.vmap(one)(x)


def draw_weights(key, width, inputs, law=jax.random.normal):
    """Weights for `both_passes`, from this law after the first layer.

    The first is Gaussian: it sums over so few inputs that another law would stay another law.
    """
    first, *rest = jax.random.split(key, 3)
    return jax.random.normal(first, (width, inputs)), law(rest[0], (width, width)), law(rest[1], (width,))


def unit_rows(key, shape):
    x = jax.random.normal(key, shape)
    return x / jnp.linalg.norm(x, axis=-1, keepdims=True)
