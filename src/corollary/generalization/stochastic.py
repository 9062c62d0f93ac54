r"""Networks whose weights are drawn anew for each prediction: normal laws around the weights of any network."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree

from corollary._types import NetworkLike
from corollary._validate import concrete, whole
from corollary.catalog import implements
from corollary.foundations import gaussian_kl
from corollary.generalization._layerwise import batch_output, draw, drawn, layerwise, noise, output
from corollary.network.apart import output_of
from corollary.network.batches import count, each, pair
from corollary.network.parts import Parts, matched, require_network, split


@implements("B09.12")
class StochasticNetwork(eqx.Module):
    r"""The law of networks with independent weights $N(\theta_i,s_i^2)$: $\theta$ of the network `mean`, $s$ `scale`.

    `scale` is one number, or a pytree like the network that has standard deviations in the place of its parameters,
    arrays of their shapes or one number for each array. The parameters are the real floating-point arrays of the
    network; buffers of a `Network` stay what they are. `stochastic(x, key=key)` is the output of a fresh network for
    one example. The noise of a layer that is a product with one vector is drawn behind the product, one number per
    unit, which has the same law.

    >>> stochastic = StochasticNetwork(network, 0.1)
    >>> bool((stochastic(x[0], key=key) != network(x[0])).all())
    True
    """

    mean: Any
    scale: Any

    def __init__(self, mean: NetworkLike, scale: PyTree):
        require_network(mean)
        require_no_state(mean)
        params = split(mean, name="mean").params
        leaves, tree = jax.tree.flatten(params)
        one = isinstance(scale, int | float | np.number) or getattr(scale, "shape", None) == ()
        given = [scale] * len(leaves) if one else jax.tree.leaves(eqx.filter(scale, eqx.is_array))
        if len(given) != len(leaves):
            raise ValueError(
                f"scale must have one array per parameter of the network, {len(leaves)}, got {len(given)}."
            )
        self.mean = mean
        self.scale = tree.unflatten([_scale(s, leaf) for s, leaf in zip(given, leaves, strict=True)])

    def __call__(self, x: PyTree, *, key: PRNGKeyArray) -> PyTree:
        """The output for one example of a network that is drawn for it."""
        parts, means, scales = self._leaves()
        plan = layerwise(parts, x)
        made = noise(plan, key, means)
        return output(plan, made.units, drawn(plan, made, means, scales), scales, x)

    def on_batch(self, x: PyTree, *, key: PRNGKeyArray) -> PyTree:
        """Outputs for a batch, each of the law of a fresh network, in the time of two passes.

        Noise that can be drawn per unit is drawn for each example, other weights once for the batch: outputs of
        different examples are not independent. For training, where their mean counts.
        """
        parts, means, scales = self._leaves()
        plan = layerwise(parts, jax.tree.map(lambda a: a[0], x))
        return batch_output(plan, noise(plan, key, means, count(x)), means, scales, x)

    def draw(self, *, key: PRNGKeyArray) -> Any:
        """One network of this law.

        >>> StochasticNetwork(network, 0.1).draw(key=key)(x[0]).shape
        (1,)
        """
        parts, means, scales = self._leaves()
        tree = jax.tree.structure(parts.params)
        return parts.join(tree.unflatten(draw(key, means, scales)))

    def errors(self, data: PyTree, *, draws: int = 20, key: PRNGKeyArray, batch_size: int = 1000) -> Int[Array, ""]:
        """How many of `draws` predictions per example are wrong, each by a network drawn for it alone.

        These are independent trials, so that their mean is within $O(1/\\sqrt{nk})$ of the error of the law on these
        data for $n$ examples and $k$ draws; whole networks, each on all examples, would have to be as many as all of
        these trials for the same.
        """
        x, y = classified(self.mean, data)
        return _errors(self, (x, y), whole("draws", draws), key, whole("batch_size", batch_size))

    def kl(self, prior: "StochasticNetwork") -> Float[Array, ""]:
        """The relative entropy of this law and a `prior` on networks of the same kind; infinite where a scale is 0."""
        _, means, scales = self._leaves()
        params = split(self.mean).params
        centres = jax.tree.leaves(matched("prior", split(prior.mean).params, params))
        widths = jax.tree.leaves(prior.scale)
        flat = zip(means, scales, centres, widths, strict=True)
        return sum(
            gaussian_kl(m.ravel(), (s**2).ravel(), c.ravel(), jnp.broadcast_to(w, m.shape).ravel() ** 2)
            for m, s, c, w in flat
        )

    def _leaves(self) -> tuple[Parts, list, list]:
        parts = split(self.mean)
        means = jax.tree.leaves(parts.params)
        scales = jax.tree.leaves(self.scale)
        return parts, means, [jnp.broadcast_to(s, m.shape).astype(m.dtype) for s, m in zip(scales, means, strict=True)]


def wrong(output: Float[Array, "..."], target: Array) -> Bool[Array, ""]:
    """Whether the class that an output stands for is not the `target`: the greatest of several, the sign of one."""
    if output.size == 1:
        return (output.reshape(()) > 0) != (target.reshape(()) > 0)
    return jnp.argmax(output) != target


def classified(network: NetworkLike, data: PyTree) -> tuple:
    """`data` as a pair of inputs and classes for this network; one sentence for other targets."""
    x, y = pair("data", data)
    out = output_of(network, x)
    classes, one = int(np.prod(out.shape)), getattr(y, "shape", None)
    if one is None or int(np.prod(one[1:])) != 1 or len(out.shape) > 1:
        raise ValueError(
            "data must hold one class per example for a network with one output or one vector of them, got targets "
            f"of shape {None if one is None else one[1:]} for outputs of shape {out.shape}."
        )
    if concrete(y):
        seen = np.unique(np.asarray(y))
        pairs = ((0, 1), (-1, 1)) if classes == 1 else (range(classes),)
        if not any(np.isin(seen, allowed).all() for allowed in pairs):
            words = "0 and 1, or -1 and 1," if classes == 1 else f"0 to {classes - 1}"
            few = ", ".join(f"{v:g}" for v in seen[:4]) + (", ..." if len(seen) > 4 else "")
            raise ValueError(f"data must have the classes {words} as targets, to count wrong ones, got {few}.")
    return x, y.reshape(y.shape[0])


def require_no_state(network: Any) -> None:
    """One sentence for a network that carries state, such as running statistics, among its arrays."""
    found = [
        leaf
        for leaf in jax.tree.leaves(network, is_leaf=lambda a: isinstance(a, eqx.nn.State | eqx.nn.StateIndex))
        if isinstance(leaf, eqx.nn.State | eqx.nn.StateIndex)
    ]
    if found:
        raise ValueError(
            "network must hold weights alone, and it has state (running statistics, say), which has no law: "
            "make it Network.from_equinox(module, state), which keeps both apart."
        )


def _scale(given, leaf):
    scale = jnp.asarray(given, leaf.dtype)
    if scale.shape not in ((), leaf.shape):
        raise ValueError(
            f"scale must be one number or have the shape of its parameter, {leaf.shape}, got {scale.shape}."
        )
    if concrete(given) and not (np.asarray(given) >= 0).all():
        raise ValueError("scale must be 0 or more: it is the standard deviation of the weights.")
    return scale


@eqx.filter_jit
def _errors(stochastic, data, draws, key, batch_size):
    def one(x, y, key):
        keys = jax.random.split(key, draws)
        return jnp.sum(jax.vmap(lambda k: wrong(stochastic(x, key=k), y))(keys))

    keys = jax.random.split(key, jax.tree.leaves(data)[0].shape[0])
    per_example = each(lambda batch: jax.vmap(one)(*batch), (*data, keys), max(1, batch_size // draws))
    return jnp.sum(per_example)
