"""Data with prescribed principal strengths for the claims on linear networks."""

from functools import reduce
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np


def linear_data(key, strengths, *, inputs, outputs, n, white=False):
    """Inputs (n, d) and targets (n, k) whose map of least squares has these `strengths` after whitening.

    The targets are what a linear map makes of orthonormal inputs and a part that no linear map can explain; unless
    they are to be `white`, the inputs are then mixed by a matrix of condition 3.
    """
    frame_key, u_key, v_key, mix_key, rest_key = jax.random.split(key, 5)
    frame = jnp.linalg.qr(jax.random.normal(frame_key, (n, n)))[0]
    x, rest = frame[:, :inputs], frame[:, inputs:]
    u = jax.random.orthogonal(u_key, outputs)[:, : strengths.size]
    v = jax.random.orthogonal(v_key, inputs)[:, : strengths.size]
    y = x @ (v * strengths) @ u.T + rest @ jax.random.normal(rest_key, (n - inputs, outputs)) / n
    if white:
        return x, y
    turns = jax.random.orthogonal(mix_key, inputs, (2,))
    return x @ (turns[0] * jnp.linspace(1.0, 3.0, inputs)) @ turns[1], y


def normal_chain(key, sizes, scale=1.0):
    """Weights of normal entries for these sizes, the first layer first, from one draw."""
    shapes = [(m, n) for n, m in pairwise(sizes)]
    ends = np.cumsum([m * n for m, n in shapes])
    entries = scale * jax.random.normal(key, (ends[-1],))
    return tuple(part.reshape(shape) for part, shape in zip(jnp.split(entries, ends[:-1]), shapes, strict=True))


def product(weights):
    """The matrix of the whole network."""
    return reduce(lambda done, w: w @ done, weights)


def other_bases(key, weights):
    """The same map from other bases of the hidden layers, well conditioned ones."""
    for layer in range(len(weights) - 1):
        width = weights[layer].shape[0]
        basis = jnp.eye(width) + 0.3 * jax.random.orthogonal(jax.random.fold_in(key, layer), width)
        first, then = basis @ weights[layer], jnp.linalg.solve(basis.T, weights[layer + 1].T).T
        weights = (*weights[:layer], first, then, *weights[layer + 2 :])
    return weights
