r"""PointNet: every point of a cloud through the same network, then the largest value of every feature over the points.

Deep Sets with a maximum in place of the sum. The T-nets are small networks of the same kind that look at the whole
cloud and answer with a matrix, by which every point is multiplied: a general matrix, near a rotation only if the loss
asks for it (`orthogonality_penalty`).
"""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Bool, Float, PRNGKeyArray

from corollary._show import shown
from corollary._validate import real, whole
from corollary.catalog import implements
from corollary.nets.activations import relu
from corollary.nets.initialisations import he_normal, zeros
from corollary.nets.mlp import MLP


class PointFeatures(NamedTuple):
    """What `PointNet` makes of a cloud: `local` (m, local), `whole` (features,), the matrices of both T-nets, and
    `critical` (m,), true for the points that a maximum was taken at."""

    local: jax.Array
    whole: jax.Array
    input_transform: jax.Array
    feature_transform: jax.Array
    critical: jax.Array

    __repr__ = shown


@implements("E07.07")
class TNet(eqx.Module):
    r"""A $k\times k$ matrix for a cloud of points in $\mathbb R^k$, whatever their order; at first the identity."""

    each: MLP
    pooled: MLP
    size: int = eqx.field(static=True)

    def __init__(self, size: int, widths: tuple[int, int, int] = (64, 128, 1024), *, key: PRNGKeyArray):
        self.size = size = whole("size", size)
        first, second, features = widths
        each_key, pooled_key = jax.random.split(key)
        self.each = _shared((size, first, second, features), each_key)
        head = _shared((features, max(features // 2, 1), max(features // 4, 1), size**2), pooled_key)
        last = head.layers[-1]
        self.pooled = eqx.tree_at(lambda m: m.layers[-1].weight, head, jnp.zeros_like(last.weight))

    def __call__(self, x: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
        return self.with_critical(x)[0]

    def with_critical(self, x: Float[ArrayLike, "m _"]) -> tuple[Float[Array, "_ _"], Bool[Array, "m"]]:
        """The matrix, and which points it was made from (m,)."""
        x = real("x", x, f"m {self.size}", finite=False)
        features = relu(jax.vmap(self.each)(x))
        matrix = self.pooled(jnp.max(features, axis=0)).reshape(self.size, self.size)
        return matrix + jnp.eye(self.size, dtype=matrix.dtype), _attained(features)


@implements("E07.07")
class PointNet(eqx.Module):
    r"""Points in $\mathbb R^3$: T-net, network, T-net (the `local` features), network, and the maximum over points.

    The text has 64 local and 1024 `features` of the whole cloud. Removing all points but the critical ones, or
    repeating some, changes no feature of those that remain.
    """

    input_net: TNet
    first: MLP
    feature_net: TNet
    second: MLP

    def __init__(self, local: int = 64, features: int = 1024, *, key: PRNGKeyArray):
        local, features = whole("local", local), whole("features", features)
        keys = jax.random.split(key, 4)
        widths = (local, 2 * local, features)
        self.input_net = TNet(3, widths, key=keys[0])
        self.first = _shared((3, local, local), keys[1])
        self.feature_net = TNet(local, widths, key=keys[2])
        self.second = _shared((local, local, 2 * local, features), keys[3])

    def __call__(self, x: Float[ArrayLike, "m 3"]) -> PointFeatures:
        x = real("x", x, "m 3", finite=False)
        turned, used_first = self.input_net.with_critical(x)
        hidden = relu(jax.vmap(self.first)(x @ turned))
        aligned, used_second = self.feature_net.with_critical(hidden)
        local = hidden @ aligned
        features = relu(jax.vmap(self.second)(local))
        critical = used_first | used_second | _attained(features)
        return PointFeatures(local, jnp.max(features, axis=0), turned, aligned, critical)


@implements("E07.08")
class PointNetClassifier(eqx.Module):
    """Probabilities of the classes of a cloud, from the features of the whole: order-invariant."""

    features: PointNet
    head: MLP

    def __init__(self, classes: int, *, local: int = 64, features: int = 1024, key: PRNGKeyArray):
        classes = whole("classes", classes, 2)
        features_key, head_key = jax.random.split(key)
        self.features = PointNet(local, features, key=features_key)
        widths = (features, max(features // 2, 1), max(features // 4, 1), classes)
        self.head = _shared(widths, head_key)

    def logits(self, x: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
        """Before the softmax: (classes,)."""
        return self.head(self.features(x).whole)

    def __call__(self, x: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
        return jax.nn.softmax(self.logits(x))


@implements("E07.08")
class PointNetSegmenter(eqx.Module):
    """Probabilities of the part that every point belongs to, from its own features beside those of the whole cloud
    (64 + 1024 = 1088 in the text): equivariant."""

    features: PointNet
    head: MLP

    def __init__(self, parts: int, *, local: int = 64, features: int = 1024, key: PRNGKeyArray):
        parts = whole("parts", parts, 2)
        features_key, head_key = jax.random.split(key)
        self.features = PointNet(local, features, key=features_key)
        widths = (local + features, max(features // 2, 1), max(features // 4, 1), parts)
        self.head = _shared(widths, head_key)

    def logits(self, x: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
        """Before the softmax: (m, parts)."""
        found = self.features(x)
        return jax.vmap(lambda local: self.head(jnp.concatenate([local, found.whole])))(found.local)

    def __call__(self, x: Float[ArrayLike, "..."]) -> Array:
        return jax.nn.softmax(self.logits(x))


def orthogonality_penalty(transform: Float[ArrayLike, "k k"]) -> Float[Array, ""]:
    r"""$\|I-TT^\top\|_F^2$, zero exactly for rotations and reflections."""
    transform = real("transform", transform, "k k", {}, finite=False)
    return jnp.sum((jnp.eye(transform.shape[0], dtype=transform.dtype) - transform @ transform.T) ** 2)


def _shared(sizes, key):
    return MLP(sizes, relu, key=key, initialisation=he_normal, bias_initialisation=zeros)


def _attained(features):
    """Which points have the largest value of some feature, the first of those that share it."""
    return jnp.zeros(features.shape[0], bool).at[jnp.argmax(features, axis=0)].set(True)
