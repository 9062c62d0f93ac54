"""Activations with their derivatives written out, so that backpropagation does not borrow them from JAX."""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp

from corollary._validate import one_of
from corollary.autodiff.elementary import sigmoid

ACTIVATION_PAIRS = {
    "logistic": (sigmoid, lambda z: sigmoid(z) * sigmoid(-z)),
    "tanh": (jnp.tanh, lambda z: 1 - jnp.tanh(z) ** 2),
    "softplus": (lambda z: jnp.logaddexp(z, 0.0), sigmoid),
    "relu": (lambda z: jnp.maximum(z, 0), lambda z: (z > 0).astype(z.dtype)),
    "sine": (jnp.sin, jnp.cos),
    "exponential": (jnp.exp, jnp.exp),
    "linear": (lambda z: z, jnp.ones_like),
}


def activation_pair(name: str) -> tuple[Callable, Callable]:
    """The activation of this name and its derivative, two functions of an array."""
    one_of("activation", name, tuple(ACTIVATION_PAIRS))
    return ACTIVATION_PAIRS[name]
