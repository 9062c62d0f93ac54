r"""A classifier whose features are learned: $\operatorname{sign}(\sum_nc^n\sigma(w^n\cdot x))$, a network.

With the features frozen at random it is a linear classifier on random features, a kernel method in disguise.
"""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, ArrayLike, Float, Int, PRNGKeyArray

from corollary._show import shown
from corollary._types import NetworkLike
from corollary._validate import concrete, one_of, positive, real, whole
from corollary.catalog import implements

SIGMA = {"relu": jax.nn.relu, "tanh": jnp.tanh, "logistic": jax.nn.sigmoid}


@implements("M04.17")
class LearnedFeatureClassifier(eqx.Module):
    r"""$N$ features $\psi^n(x)=\sigma(w^n\cdot x+b^n)$ and weights $c^n$; made with random normal weights of unit gain.

    `bias=False` is the network as printed. `features`, `score` and the sign on calling take one point.
    """

    c: jax.Array
    w: jax.Array
    b: jax.Array | None
    sigma: str = eqx.field(static=True)

    def __init__(self, dim: int, features: int, *, sigma: str = "relu", bias: bool = True, key: PRNGKeyArray):
        dim, features = whole("dim", dim), whole("features", features)
        self.sigma = one_of("sigma", sigma, tuple(SIGMA))
        w_key, b_key, c_key = jax.random.split(key, 3)
        self.w = jax.random.normal(w_key, (features, dim)) / dim**0.5
        self.b = 0.5 * jax.random.normal(b_key, (features,)) if bias else None
        self.c = jax.random.normal(c_key, (features,)) / features**0.5

    def features(self, x: Float[ArrayLike, "d"]) -> Float[Array, "_"]:
        z = self.w @ real("x", x, "d", {"d": self.w.shape[1]})
        return SIGMA[self.sigma](z if self.b is None else z + self.b)

    def score(self, x: Float[ArrayLike, "d"]) -> Float[Array, ""]:
        return self.c @ self.features(x)

    def __call__(self, x: Float[ArrayLike, "d"]) -> Int[Array, ""]:
        return jnp.where(self.score(x) >= 0, 1, -1)


class Training(NamedTuple):
    """The network in the end, and the loss before every step."""

    network: LearnedFeatureClassifier
    losses: jax.Array

    __repr__ = shown


@implements("M04.17", "M04.18")
def learned_feature_loss(network: NetworkLike, x: Float[ArrayLike, "m d"], y: Float[ArrayLike, "m"]) -> Array:
    r"""$\frac1M\sum_m\log(1+e^{-y_m\sum_nc^n\psi^n(x_m)})$: convex in $c$, not in $(c,w)$."""
    dims = {}
    x, y = real("x", x, "m d", dims), real("y", y, "m", dims)
    return jnp.mean(jax.nn.softplus(-y * jax.vmap(network.score)(x)))


@implements("M04.17")
def train_classifier(
    network: NetworkLike,
    x: Float[ArrayLike, "m d"],
    y: Float[ArrayLike, "m"],
    *,
    steps: int = 1500,
    step: float = 0.02,
    freeze_features: bool = False,
) -> Training:
    """Full-batch Adam on the logistic loss; with `freeze_features` only the weights `c` are trained."""
    dims = {}
    x, y, steps = real("x", x, "m d", dims), real("y", y, "m", dims), whole("steps", steps)
    positive("step", step)
    if concrete(y) and not bool((jnp.abs(y) == 1).all()):
        raise ValueError("y must hold +1 and -1 only.")
    optimiser = optax.adam(step)

    def advance(state, _):
        network, memory = state
        loss, slope = jax.value_and_grad(learned_feature_loss)(network, x, y)
        if freeze_features:
            slope = eqx.tree_at(lambda m: m.c, jax.tree.map(jnp.zeros_like, slope), slope.c)
        update, memory = optimiser.update(slope, memory)
        return (optax.apply_updates(network, update), memory), loss

    (network, _), losses = jax.lax.scan(advance, (network, optimiser.init(network)), length=steps)
    return Training(network, losses)
