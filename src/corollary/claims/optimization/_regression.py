"""Random regression data that several claims share."""

import jax


def regression(key, n, dim, *, noise=1.0):
    """Normal inputs, a linear truth with normal noise, and a point to start from."""
    x_key, theta_key, y_key, at_key = jax.random.split(key, 4)
    x = jax.random.normal(x_key, (n, dim))
    y = x @ jax.random.normal(theta_key, (dim,)) + noise * jax.random.normal(y_key, (n,))
    return x, y, jax.random.normal(at_key, (dim,))
