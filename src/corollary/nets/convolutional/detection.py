r"""Is a known signal in here? Sliding correlations of a reference with an observation, and detectors made of them.

Observations have $N$ entries, the reference $N'$; windows start at $n=0..N-N'$.
"""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float, Int, PRNGKeyArray

from corollary._show import shown
from corollary._types import Scalar
from corollary._validate import labels, positive, real, whole, within
from corollary.catalog import implements
from corollary.linear import fit_newton
from corollary.nets.convolutional.operator import cross_correlate

#: $R_n=6+\frac12\min\{n-4,0\}$ for $n=0..6$ (M, section 14.2)
REFERENCE = 6 + 0.5 * np.minimum(np.arange(7.0) - 4, 0)
#: The reference with two channels (M, figure 14.7).
REFERENCE_CHANNELS = np.stack([REFERENCE, [1.0, 3, 5, 7, 7, 7, 7]])


class Observations(NamedTuple):
    """Signals `x` (n, length), whether they hold the reference, and where it starts (-1 where it is not)."""

    x: jax.Array
    y: jax.Array
    start: jax.Array

    __repr__ = shown


@implements("M14.01")
def signal_data(
    n: int,
    *,
    key: PRNGKeyArray,
    reference: Float[ArrayLike, "m"] = REFERENCE,
    length: int = 25,
    background: Scalar = 3.0,
    noise: Scalar = 0.5,
    present: Scalar = 0.5,
) -> Observations:
    r"""`n` signals of $N(0,b^2)$ noise; into each, with probability `present`, a copy $\mathbf R+N(0,s^2)$ is written.

    $b$ is `background` and $s$ is `noise`; the copy starts at any $n\le N-N'$ with equal probability.
    """
    n, length = whole("n", n), whole("length", length)
    reference = real("reference", reference, "m")
    size = reference.shape[0]
    if size > length:
        raise ValueError(f"reference must be no longer than the observations, {length}, got {size}.")
    background, noise = positive("background", background), within("noise", noise, 0.0)
    within("present", present, 0.0, 1.0)
    draw_key, place_key, label_key = jax.random.split(key, 3)
    draws = jax.random.normal(draw_key, (n, length + size), reference.dtype)
    y = jax.random.bernoulli(label_key, present, (n,))
    start = jnp.where(y, jax.random.randint(place_key, (n,), 0, length - size + 1), -1)
    copies = reference + noise * draws[:, length:]
    offset = jnp.arange(length) - start[:, None]
    inside = y[:, None] & (offset >= 0) & (offset < size)
    written = jnp.take_along_axis(copies, jnp.clip(offset, 0, size - 1), axis=1)
    return Observations(jnp.where(inside, written, background * draws[:, :length]), y.astype(int), start)


@implements("M14.02")
def sliding_pearson(reference: Float[ArrayLike, "m"], x: Float[ArrayLike, "N"]) -> Float[Array, "_"]:
    r"""$\ell_n(\mathbf X)$: Pearson's correlation of the reference with the window of `x` that starts at $n$.

    1 exactly if the window is $a\mathbf R+b$ with $a>0$; 0, by our choice, where window or reference is constant.
    """
    reference, x = _reference(reference), real("x", x, "N")
    windows = sliding_windows(x, reference.shape[0])
    r = reference - reference.mean()
    away = windows - windows.mean(axis=1, keepdims=True)
    square = jnp.sum(away**2, axis=1) * jnp.sum(r**2)
    constant = (windows == windows[:, :1]).all(axis=1) | (square == 0)
    return jnp.where(constant, 0.0, away @ r * jax.lax.rsqrt(jnp.where(constant, 1.0, square)))


class Decomposition(NamedTuple):
    r"""$w_n$, $b_n$ of $\ell_n=w_n(\mathbf R\star\mathbf X)_n-b_n$."""

    weight: jax.Array
    offset: jax.Array

    __repr__ = shown


@implements("M14.04")
def pearson_decomposition(reference: Float[ArrayLike, "m"], x: Float[ArrayLike, "N"]) -> Decomposition:
    r"""$w_n=\frac{1/N'}{\mathrm{sd}(\mathbf R)\,\mathrm{sd}(\mathbf X_n)}$ and
    $b_n=\frac{\bar R\,\bar X_n}{\mathrm{sd}(\mathbf R)\,\mathrm{sd}(\mathbf X_n)}$ of the windows $\mathbf X_n$ of `x`.

    Windows of one mean and one deviation are therefore ordered alike by Pearson's and by the plain correlation.
    """
    reference, x = _reference(reference), real("x", x, "N")
    windows = sliding_windows(x, reference.shape[0])
    deviations = jnp.std(reference) * jnp.std(windows, axis=1)
    return Decomposition(1 / (reference.shape[0] * deviations), reference.mean() * windows.mean(axis=1) / deviations)


def area_under_curve(scores: Float[ArrayLike, "n"], y: Int[ArrayLike, "n"]) -> Float[Array, ""]:
    """The probability that a score of label 1 exceeds one of label 0, ties counting half: the area under the ROC."""
    scores = real("scores", scores, "n", dims := {})
    y = labels("y", y, 2, "n", dims)
    order = jnp.sort(scores)
    low, high = jnp.searchsorted(order, scores, side="left"), jnp.searchsorted(order, scores, side="right")
    ranks = (low + high + 1) / 2
    ones = y.sum()
    return (jnp.sum(ranks * y) - ones * (ones + 1) / 2) / (ones * (y.shape[0] - ones))


@implements("M14.03")
class PearsonDetector(eqx.Module):
    r"""The reference is there if $\bar\ell(\mathbf X)=\max_n\ell_n(\mathbf X)$ exceeds the threshold."""

    reference: jax.Array
    threshold: jax.Array

    def __init__(self, reference: Float[ArrayLike, "m"] = REFERENCE, threshold: Scalar = 0.5):
        self.reference, self.threshold = _reference(reference), real("threshold", threshold, "")

    def score(self, x: Float[ArrayLike, "N"]) -> Float[Array, ""]:
        r"""$\bar\ell(\mathbf X)$."""
        return jnp.max(sliding_pearson(self.reference, x))

    def __call__(self, x: Float[ArrayLike, "..."]) -> Bool[Array, ""]:
        return self.score(x) > self.threshold

    def fit(self, x: Float[ArrayLike, "n N"], y: Int[ArrayLike, "n"]) -> "PearsonDetector":
        """The detector with the threshold that is right most often on signals `x` (n, N) with labels `y`."""
        scores = jax.vmap(self.score)(real("x", x, "n N", dims := {}))
        y = labels("y", y, 2, "n", dims)
        order = jnp.argsort(scores)
        ranked, hits = scores[order], y[order]
        # below the threshold after the first k: right are the zeros before it and the ones behind
        right = jnp.concatenate([jnp.zeros(1, int), jnp.cumsum(1 - hits)]) + hits.sum()
        right = right - jnp.concatenate([jnp.zeros(1, int), jnp.cumsum(hits)])
        cuts = jnp.concatenate([ranked[:1] - 1, (ranked[1:] + ranked[:-1]) / 2, ranked[-1:] + 1])
        return PearsonDetector(self.reference, cuts[jnp.argmax(right)])


@implements("M14.07")
class KnownSignalDetector(eqx.Module):
    r"""$m(\mathbf X;w,b)=S(w\max_n(\mathbf R\star\mathbf X)_n+b)$, called on one signal."""

    reference: jax.Array
    weight: jax.Array
    bias: jax.Array

    def __init__(self, reference: Float[ArrayLike, "m"] = REFERENCE, weight: Scalar = 0.0, bias: Scalar = 0.0):
        self.reference = _reference(reference)
        self.weight, self.bias = real("weight", weight, ""), real("bias", bias, "")

    def feature(self, x: Float[ArrayLike, "..."]) -> Float[Array, ""]:
        r"""$\max_n(\mathbf R\star\mathbf X)_n$."""
        return jnp.max(cross_correlate(self.reference, x))

    def logit(self, x: Float[ArrayLike, "..."]) -> Float[Array, ""]:
        return self.weight * self.feature(x) + self.bias

    def __call__(self, x: Float[ArrayLike, "..."]) -> Float[Array, ""]:
        return jax.nn.sigmoid(self.logit(x))

    def gradient(self, x: Float[ArrayLike, "..."], y: Int[ArrayLike, ""]) -> Float[Array, "..."]:
        r"""$\nabla_{(w,b)}\lambda=(S-y)\,(\max_n(\mathbf R\star\mathbf X)_n,\,1)$ of one signal (14.5)."""
        return (self(x) - labels("y", y, 2, "")) * jnp.stack([self.feature(x), jnp.ones_like(self.bias)])

    def fit(
        self, x: Float[ArrayLike, "n N"], y: Int[ArrayLike, "n"], *, penalty: Scalar = 1e-3
    ) -> "KnownSignalDetector":
        """Logistic regression on the feature, centred and scaled first (it is of the order of 200) and by Newton.

        The `penalty` on those units keeps $w$ finite where the classes are separable.
        """
        features = jax.vmap(self.feature)(real("x", x, "n N", dims := {}))
        y = labels("y", y, 2, "n", dims)
        mean, deviation = features.mean(), features.std()
        slope, offset = fit_newton(((features - mean) / deviation)[:, None], y, penalty=penalty).theta
        return KnownSignalDetector(self.reference, slope / deviation, offset - slope * mean / deviation)


@implements("M14.13")
def channel_correlation(reference: Float[ArrayLike, "K M"], x: Float[ArrayLike, "K N"]) -> Float[Array, "_ _"]:
    r"""$(\mathbf r\star\mathbf X)_{k,n}=\sum_{n'}r_{k,n'}X_{k,n+n'}$ for references (K, N') and signals (K, N)."""
    reference, x = real("reference", reference, "K M", dims := {}), real("x", x, "K N", dims)
    return jax.vmap(cross_correlate)(reference, x)


@implements("M14.13")
def locate(reference: Float[ArrayLike, "K M"], x: Float[ArrayLike, "K N"]) -> Int[Array, ""]:
    r"""$\arg\max_n\sum_k|(\mathbf r\star\mathbf X)_{k,n}|$: where all channels see the reference, or its negative."""
    return jnp.argmax(jnp.abs(channel_correlation(reference, x)).sum(axis=0))


def _reference(reference):
    reference = real("reference", reference, "m")
    if reference.shape[0] < 2:
        raise ValueError(f"reference must have at least two entries, got {reference.shape[0]}.")
    return reference


def sliding_windows(x: Float[ArrayLike, "N"], size: int) -> Float[Array, "_ _"]:
    """All windows of `size` entries of a signal, one per row."""
    x, size = real("x", x, "N", finite=False), whole("size", size)
    if x.shape[0] < size:
        raise ValueError(f"x must be at least as long as the reference, {size}, got {x.shape[0]}.")
    return x[jnp.arange(x.shape[0] - size + 1)[:, None] + jnp.arange(size)]
