r"""How signals and gradients travel through the layers of a network.

`signal_propagation` measures any feed-forward network: the mean square of what every layer passes on, the size of the
gradient of the loss by it, and the size of the gradient by the layer's parameters. `xavier_variance` and
`he_variance` are the scalings that keep them alive. What to expect of random linear layers, exactly, is in
`gaussian_depth`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, PyTree

from corollary._show import shown
from corollary._types import LossLike, NetworkLike
from corollary._validate import concrete, one_of, positive, real, whole
from corollary.catalog import implements
from corollary.nets import DeepLinearNetwork, FullyConnected, Stack
from corollary.network.batches import pair
from corollary.network.loss import of_examples


class Propagation(NamedTuple):
    r"""What happens on the way through $L$ layers, $x^0$ being the input and $x^\ell$ the output of layer $\ell$.

    `forward` (L + 1,): the mean of $\|x^\ell\|^2/n_\ell$ over the examples, $n_\ell$ being the size of $x^\ell$.
    `backward` (L + 1,): the mean of $\|\partial\,\mathrm{loss}/\partial x^\ell\|^2$ over the examples. `gradient`
    (L,): the norm of the gradient of the mean loss by the parameters of layer $\ell$, 0 for a layer that has none.
    """

    forward: jax.Array
    backward: jax.Array
    gradient: jax.Array

    __repr__ = shown


def layers_of(network: NetworkLike) -> tuple[Callable, ...]:
    """The layers of a feed-forward network, each a function of one example.

    Takes a sequence of functions; a module that applies what it holds in a field `layers` one after the other (`MLP`,
    `Composition` and others of ours, `equinox.nn.Sequential`, your own); an `equinox.nn.MLP`, whose activations become
    part of the layers; a `Stack`; or a `DeepLinearNetwork`.
    """
    if isinstance(network, eqx.nn.MLP):
        return _equinox_layers(network)
    if isinstance(network, DeepLinearNetwork):
        return tuple(FullyConnected.of(weight) for weight in network.weights)
    if isinstance(network, Stack):
        return _unstack(network.layers, network.depth)
    layers = getattr(network, "layers", network)
    if not isinstance(layers, Sequence) or not layers or not all(map(callable, layers)):
        raise TypeError(
            f"network must be a sequence of functions or a module with such layers, got {type(network).__name__}."
        )
    return tuple(layers)


@implements("B06.21", "M19.03", "M19.04")
def signal_propagation(network: NetworkLike, loss: LossLike, data: PyTree) -> Propagation:
    r"""Forward second moments and backward gradient norms, layer by layer, of a network on `data = (x, y)`.

    `network` is anything that `layers_of` takes, of functions of one example (dropout and normalisation in their
    inference mode). `loss` is a name, or a function of one output and one target. All of it costs one gradient of
    the batch.
    """
    loss, (x, y) = of_examples(loss, who="signal_propagation"), pair("data", data)
    layers = layers_of(network)
    _require_composition(network, layers, x[0])
    return _propagate(layers, x, y, loss)


@eqx.filter_jit
def _propagate(layers, x, y, loss) -> Propagation:
    params, rest = eqx.partition(layers, eqx.is_inexact_array)

    def states_of(layers, x, shifts):
        states = [x + shifts[0]]
        for layer, shift in zip(layers, shifts[1:], strict=True):
            states.append(layer(states[-1]) + shift)
        return states

    def mean_loss(params, shifts):
        states = jax.vmap(lambda x, s: states_of(eqx.combine(params, rest), x, s))(x, shifts)
        return loss.of_outputs(states[-1], y), states

    # a shift of zero after every layer: the gradient by it is the gradient by what the layer passes on
    shapes = jax.eval_shape(lambda x: _run(layers, x), x[0])
    shifts = [jnp.zeros((x.shape[0], *s.shape), s.dtype) for s in shapes]
    (by_params, by_states), states = jax.grad(mean_loss, argnums=(0, 1), has_aux=True)(params, shifts)
    forward = [jnp.mean(s**2) for s in states]
    # the mean loss gives every example the weight 1/n
    backward = [x.shape[0] * jnp.sum(g**2) for g in by_states]
    gradient = [
        jnp.sqrt(sum((jnp.sum(g**2) for g in jax.tree.leaves(layer)), jnp.zeros((), x.dtype))) for layer in by_params
    ]
    return Propagation(jnp.stack(forward), jnp.stack(backward), jnp.stack(gradient))


@implements("B06.21")
def depth_factor(profile: Float[ArrayLike, "n"]) -> Array:
    r"""The factor per layer of a positive `profile` (L + 1,) over depth: $e^s$ for the slope $s$ of its logarithm.

    Below one the signal vanishes with depth, above one it explodes. Least squares, so that no single layer decides.
    """
    profile = positive("profile", real("profile", profile, "n"))
    if profile.shape[0] < 2:
        raise ValueError("profile must have at least two entries, got one.")
    k = jnp.arange(profile.shape[0], dtype=profile.dtype)
    k = k - k.mean()
    return jnp.exp(k @ jnp.log(profile) / (k @ k))


@implements("B06.21", "M19.05")
def xavier_variance(fan_in: int, fan_out: int) -> float:
    r"""$\frac2{n_{in}+n_{out}}$, a compromise between keeping signals ($\frac1{n_{in}}$) and gradients
    ($\frac1{n_{out}}$) of a linear network; on a square layer both, $\sigma=1/\sqrt d$.
    """
    return 2 / (whole("fan_in", fan_in) + whole("fan_out", fan_out))


@implements("M19.06")
def he_variance(fan_in: int, fan_out: int, mode: str = "fan_in") -> float:
    r"""$\frac2n$: rectified units pass half of the mean square on. `mode` `"fan_in"` keeps the signals, `"fan_out"` the
    gradients.
    """
    fans = {"fan_in": whole("fan_in", fan_in), "fan_out": whole("fan_out", fan_out)}
    return 2 / fans[one_of("mode", mode, fans)]


class _Activated(eqx.Module):
    """A layer of an `equinox.nn.MLP` with its activation, which may have parameters for every unit."""

    layer: Callable
    activation: Callable

    def __call__(self, x):
        z = self.layer(x)
        return eqx.filter_vmap(lambda phi, z: phi(z))(self.activation, z) if z.ndim else self.activation(z)


def _equinox_layers(network):
    *hidden, last = network.layers
    if network.scan and network.depth > 0:
        hidden = [hidden[0], *_unstack(hidden[1], network.depth - 1)]
    activations = [
        jax.tree.map(lambda a, i=i: a[i] if eqx.is_array(a) else a, network.activation) for i in range(len(hidden))
    ]
    if network.depth == 0:  # Equinox applies no final activation to a single layer
        return (last,)
    return tuple(map(_Activated, [*hidden, last], [*activations, network.final_activation]))


def _unstack(module, depth):
    arrays, rest = eqx.partition(module, eqx.is_array)
    return tuple(eqx.combine(jax.tree.map(lambda a, i=i: a[i], arrays), rest) for i in range(depth))


def _run(layers, x):
    states = [x]
    for layer in layers:
        states.append(layer(states[-1]))
        if not eqx.is_array(states[-1]):
            raise TypeError(f"every layer must return one array, {layer!r} returns {type(states[-1]).__name__}.")
    return states


def _require_composition(network, layers, x):
    """A module whose field `layers` is not all that it applies would be measured wrongly: compare on one example."""
    if not callable(network):
        return
    own, ours = network(x), _run(layers, x)[-1]
    if jnp.shape(own) != ours.shape:
        same = False
    elif concrete(own) and concrete(ours):
        tolerance = 100 * float(jnp.finfo(ours.dtype).eps) ** 0.75
        same = np.allclose(np.asarray(own), np.asarray(ours), rtol=tolerance, atol=tolerance, equal_nan=True)
    else:
        same = True
    if not same:
        raise ValueError(
            f"network must apply its layers one after the other, but {type(network).__name__} returns something else;"
            " pass the layers as a sequence of functions instead."
        )
