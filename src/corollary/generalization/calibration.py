"""Are probabilities what they say? The calibration error of logits, and the temperature that mends it."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, Int

from corollary._validate import labels, real, whole

# temperatures are sought between exp(-SPAN) and exp(SPAN), and halved often enough for single precision
SPAN, HALVINGS = 7.0, 40


def calibration_error(logits: Float[ArrayLike, "n k"], y: Int[ArrayLike, " n"], *, bins: int = 15) -> Float[Array, ""]:
    """The expected calibration error: how far the confidence in the chosen class is from the share that is right.

    Examples are sorted by the probability of their most probable class into `bins` groups of one size. The error is the
    mean over examples of the distance between a group's mean probability and the share of it that is right. Chance
    alone gives about the root of `bins` over n.

    >>> float(calibration_error(jnp.zeros((4, 2)), jnp.array([0, 0, 1, 1]), bins=1))
    0.0
    """
    dims: dict = {}
    logits = real("logits", logits, "n k", dims)
    y = labels("y", y, logits.shape[1], "n", dims)
    bins = min(whole("bins", bins), len(logits))
    confidence, right = jax.nn.softmax(logits).max(1), jnp.argmax(logits, 1) == y
    order = jnp.argsort(confidence)
    group = jnp.arange(len(order)) * bins // len(order)
    gaps = jax.ops.segment_sum((confidence - right)[order], group, num_segments=bins)
    return jnp.abs(gaps).sum() / len(order)


def best_temperature(logits: Float[ArrayLike, "n k"], y: Int[ArrayLike, " n"]) -> Float[Array, ""]:
    """The temperature T for which the cross-entropy of logits / T is least, between about 1/1000 and 1000.

    The cross-entropy is convex in 1/T: its slope, the mean logit under the softmax less that of the label, has one
    sign change. Where every label has the largest logit there is none, and T is as small as it can be.

    >>> print(best_temperature(10 * jnp.array([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0]]), jnp.array([0, 0, 1])).round(2))
    14.43
    """
    dims: dict = {}
    logits = real("logits", logits, "n k", dims)
    y = labels("y", y, logits.shape[1], "n", dims)
    own = jnp.take_along_axis(logits, y[:, None], 1)[:, 0]

    def slope(sharpness):
        """Of the mean cross-entropy at logits times `sharpness`; it grows with it."""
        return jnp.mean(jnp.sum(jax.nn.softmax(sharpness * logits) * logits, axis=1) - own)

    def halve(ends, _):
        low, high = ends
        middle = (low + high) / 2
        below = slope(jnp.exp(middle)) < 0
        return (jnp.where(below, middle, low), jnp.where(below, high, middle)), None

    span = jnp.asarray(SPAN, logits.dtype)
    (low, high), _ = jax.lax.scan(halve, (-span, span), None, length=HALVINGS)
    return jnp.exp(-(low + high) / 2)
