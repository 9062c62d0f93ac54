r"""Smoothed networks: the class that a network gives most often under normal noise, with a certificate by sampling.

The noise of a call is shared by all its examples: it is drawn once, and an affine first part of the network is applied
to it once. Every certificate keeps its own confidence; those of one call are not independent of each other.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Int, PRNGKeyArray, PyTree

from corollary._engine.cpu_ready import cpu_ready
from corollary._show import shown
from corollary._types import NetworkLike, Scalar
from corollary._validate import concrete, positive, real, whole
from corollary.catalog import implements
from corollary.network.apart import output_of, require_apart
from corollary.network.batches import examples, pair
from corollary.network.parts import require_network, takes_key
from corollary.robustness._affine import affine_first
from corollary.robustness.smoothing_certificate import confidence, enough, vote_quantile

#: Examples that share one stretch of noise in a step; the rest of the batch size are draws.
TOGETHER = 64


class Prediction(NamedTuple):
    r"""The class with most `votes` of every example, (n, classes), and whether it may be another (`abstained`).

    Where it does not abstain, the label is that of the smoothed network with probability at least $1-\alpha$.
    """

    label: Int[Array, "n"]
    abstained: jax.Array
    votes: Int[Array, "n classes"]

    __repr__ = shown


class Certificates(NamedTuple):
    r"""Within `radius` of an example the smoothed network gives `label`, for each with probability at least $1-\alpha$.

    `votes` (n, classes) are those of the estimate; the label was chosen from others. Where the estimate does not show
    that the class has more than half of the probability it has `abstained`, and the radius is 0. The examples of a
    call share their noise, so that their certificates fail or hold together more often than independent ones; the
    expected share of those that fail is at most $\alpha$ all the same.
    """

    label: Int[Array, "n"]
    radius: Float[Array, "n"]
    abstained: jax.Array
    votes: Int[Array, "n classes"]

    __repr__ = shown


@implements("T18.12")
class Smoothed(eqx.Module):
    r"""$\arg\max_yP\{g(x+\delta)=y\}$, $\delta\sim N(0,\beta^2I)$: $\beta$ is `scale`, in the units of $x$.

    $g$ is the class of the `network`: the place of the largest output, or for a single output 1 where it is positive
    and 0 elsewhere. All methods take examples along the first axis of `x`; `batch_size` bounds how many pairs of
    example and noise are in memory.

    >>> smoothed = Smoothed(network, 0.5)
    >>> smoothed.probabilities(x, samples=100, key=key).shape
    (4, 2)
    """

    network: Any
    scale: jax.Array

    def __init__(self, network: NetworkLike, scale: Scalar):
        require_network(network)
        self.network, self.scale = network, positive("scale", real("scale", scale, ""))

    def probabilities(
        self, x: PyTree, *, samples: int = 10_000, key: PRNGKeyArray, batch_size: int = 8192
    ) -> Float[Array, "n classes"]:
        """The share of the votes of every class under noise: estimates of the probabilities."""
        samples = whole("samples", samples)
        return self._votes(x, samples, key, batch_size) / samples

    @implements("T18.13")
    def predict(
        self, x: PyTree, *, samples: int = 1000, alpha: float = 1e-3, key: PRNGKeyArray, batch_size: int = 8192
    ) -> Prediction:
        r"""The plurality class of every example; it abstains where an exact test does not tell the first two apart.

        Of all votes for the first two classes, the first must have more than chance gives with probability $\alpha$.
        """
        samples, alpha = whole("samples", samples), confidence(alpha)
        least = _needed(samples, alpha)
        if least[samples] > samples:
            raise ValueError(
                f"samples must be at least {math.ceil(1 - math.log2(alpha))} to tell two classes apart at "
                f"alpha = {alpha:g}: even if all agree, chance may have done it, got {samples}."
            )
        votes = self._votes(x, samples, key, batch_size)
        (first, second), label = jax.lax.top_k(votes, 2)[0].T, jnp.argmax(votes, 1)
        needed = jnp.asarray(least)[first + second]
        return Prediction(label, first < needed, votes)

    @implements("T18.13", "T18.16")
    def certify(
        self,
        x: PyTree,
        *,
        selection: int = 100,
        samples: int = 10_000,
        alpha: float = 1e-3,
        key: PRNGKeyArray,
        batch_size: int = 8192,
    ) -> Certificates:
        r"""A class and a radius for every example: $\beta\,\Phi^{-1}$ of Clopper and Pearson's lower end.

        `selection` votes choose the class, `samples` other ones estimate its probability; the others together have at
        most the rest. See `reachable_radius` for the most that so many votes can certify.

        >>> Smoothed(network, 0.5).certify(x, samples=1000, key=key).radius.shape
        (4,)
        """
        samples, selection, alpha = whole("samples", samples), whole("selection", selection), confidence(alpha)
        enough(samples, alpha)
        chosen, counted = jax.random.split(key)
        label = jnp.argmax(self._votes(x, selection, chosen, batch_size), 1)
        votes = self._votes(x, samples, counted, batch_size)
        quantile = vote_quantile(jnp.take_along_axis(votes, label[:, None], 1)[:, 0], samples, alpha)
        radius = jnp.maximum(quantile, 0).astype(self.scale.dtype) * self.scale
        return Certificates(label, radius, quantile <= 0, votes)

    def _votes(self, x, samples: int, key, batch_size: int):
        """Votes (n, classes) of so many draws."""
        x, batch_size = _inputs(x), whole("batch_size", batch_size)
        network = eqx.nn.inference_mode(self.network)
        out = output_of(network, x)
        if len(out.shape) > 1:
            raise ValueError(f"network must return one number per class, got shape {out.shape}.")
        require_apart(network, x)
        return _votes(network, self.scale, x, samples, key, batch_size)


class CertifiedAccuracy(NamedTuple):
    """The share of examples whose class is right and certified at least as far as each of `radii`.

    Examples on which the network abstains count as errors.
    """

    radii: Float[Array, "r"]
    accuracy: Float[Array, "r"]
    certificates: Certificates

    __repr__ = shown


@implements("T18.18")
def certified_accuracy(
    smoothed: Smoothed,
    data: PyTree,
    radii: Float[ArrayLike, "r"],
    *,
    selection: int = 100,
    samples: int = 10_000,
    alpha: float = 1e-3,
    key: PRNGKeyArray,
    batch_size: int = 8192,
) -> CertifiedAccuracy:
    r"""The share of `data = (x, y)` whose certified class is right with at least these `radii`; abstentions are errors.

    Labels are whole numbers from 0; for a network with a single output also -1 and 1. The other arguments are those
    of `Smoothed.certify`.

    >>> y = jnp.array([0, 1, 1, 0])
    >>> certified_accuracy(Smoothed(network, 0.5), (x, y), [0.0, 0.5], samples=1000, key=key).accuracy.shape
    (2,)
    """
    if not isinstance(smoothed, Smoothed):
        raise TypeError(f"smoothed must be a Smoothed network, got {type(smoothed).__name__}.")
    x, y = pair("data", data)
    radii = real("radii", radii, "r")
    if concrete(radii) and (np.asarray(radii) < 0).any():
        raise ValueError("radii must be zero or more.")
    y = _classes(y, output_of(eqx.nn.inference_mode(smoothed.network), x).size)
    made = smoothed.certify(x, selection=selection, samples=samples, alpha=alpha, key=key, batch_size=batch_size)
    right = (made.label == y) & ~made.abstained
    return CertifiedAccuracy(radii, jnp.mean(right & (made.radius >= radii[:, None]), 1), made)


@implements("T18.17")
class NoisyInput(eqx.Module):
    r"""A network that sees $x+\delta$, $\delta\sim N(0,\beta^2I)$, whenever it is called with a key, as in training.

    `nets.fit(NoisyInput(network, 0.25), "cross_entropy", data, optimiser, key=key)` trains for a `Smoothed` network of
    that scale; `.network` of what comes back is the network itself.

    >>> NoisyInput(network, 0.25)(x[0]) == network(x[0])
    Array([ True], dtype=bool)
    """

    network: Any
    scale: float = eqx.field(static=True)

    def __init__(self, network: NetworkLike, scale: float):
        require_network(network)
        self.network, self.scale = network, float(positive("scale", real("scale", scale, "")))

    def __call__(self, x: PyTree, *, key: PRNGKeyArray | None = None) -> PyTree:
        if key is None:
            return self.network(x)
        noise_key, inner = jax.random.split(key)
        leaves, tree = jax.tree.flatten(x)
        keys = jax.random.split(noise_key, len(leaves))
        noisy = [a + self.scale * jax.random.normal(k, a.shape, a.dtype) for a, k in zip(leaves, keys, strict=True)]
        return self.network(tree.unflatten(noisy), **({"key": inner} if takes_key(self.network) else {}))


def _inputs(x):
    x = examples("x", x)
    for leaf in jax.tree.leaves(x):
        if not jnp.issubdtype(leaf.dtype, np.floating):
            raise TypeError(f"x must be real numbers, to which noise can be added, got dtype {leaf.dtype}.")
    return x


def _classes(y, outputs: int):
    """The targets as classes from 0; one sentence for others. A single output has the classes 0 and 1, or -1 and 1."""
    if concrete(y):
        seen, classes = np.asarray(y), max(outputs, 2)
        allowed = [range(classes)] + ([(-1, 1)] if outputs == 1 else [])
        if seen.ndim != 1 or not any(np.isin(seen, each).all() for each in allowed):
            raise ValueError(f"data must have one class from 0 to {classes - 1} per example as target.")
    return jnp.maximum(y, 0)


def _needed(samples: int, alpha: float) -> np.ndarray:
    """How many of 0, 1, ..., `samples` votes for two classes the first must have; more than all where none suffice."""
    from scipy.stats import binom

    return binom.isf(alpha / 2, np.arange(samples + 1), 0.5).astype(int) + 1


@eqx.filter_jit
def _votes(network, scale, x, samples, key, batch_size):
    head, tail = affine_first(network, jax.tree.map(lambda a: a[0], x))
    n = jax.tree.leaves(x)[0].shape[0]
    together = min(n, TOGETHER, batch_size)
    draws = min(samples, max(1, batch_size // together))
    blocks, stretches = -(-n // together), -(-samples // draws)
    # whole blocks: the last one is filled up with the first examples, which are cut off again
    rows = jnp.arange(blocks * together) % n
    seen = jax.tree.map(lambda a: a[rows].reshape(blocks, together, *a.shape[1:]), x)
    zero = head(jax.tree.map(lambda a: jnp.zeros(a.shape[1:], a.dtype), x))

    def classes(one, noise):
        out = tail(jax.tree.map(jnp.add, one, noise)).reshape(-1)
        return jnp.argmax(out) if out.size > 1 else (out[0] > 0).astype(int)

    count = max(int(np.prod(output_of(network, x).shape)), 2)

    def stretch(total, number):
        noise = _noise(jax.random.fold_in(key, number), x, scale, draws)
        noise = jax.tree.map(jnp.subtract, jax.vmap(head)(noise), zero)
        counts = number * draws + jnp.arange(draws) < samples

        def block(some):
            voted = jax.vmap(lambda one: jax.vmap(lambda d: classes(head(one), d))(noise))(some)
            return jnp.sum((voted[..., None] == jnp.arange(count)) & counts[:, None], 1)

        return total + jax.lax.map(cpu_ready(block), seen), None

    total = jnp.zeros((blocks, together, count), int)
    total, _ = jax.lax.scan(stretch, total, jnp.arange(stretches))
    return total.reshape(-1, count)[:n]


def _noise(key, x, scale, draws):
    leaves, tree = jax.tree.flatten(x)
    keys = jax.random.split(key, len(leaves))
    return tree.unflatten(
        [
            scale.astype(a.dtype) * jax.random.normal(k, (draws, *a.shape[1:]), a.dtype)
            for a, k in zip(leaves, keys, strict=True)
        ]
    )
