r"""A chain of functions and the two orders in which its derivatives can be multiplied.

$F=\sigma_L\circ\dots\circ\sigma_1$ has the Jacobian $D^L\cdots D^1$: forward mode multiplies from the right, along with
the evaluation; reverse mode from the left, after it. What they cost is in `cost`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray

from corollary._show import shown
from corollary._validate import one_of, real, whole
from corollary.autodiff.activations import activation_pair
from corollary.catalog import implements


@implements("M06.01")
def jacobian_chain(jacobians: Sequence[Array], mode: str) -> Float[Array, "_ _"]:
    """The product of `jacobians` (the innermost function's first), in the order of `mode` "forward" or "reverse"."""
    one_of("mode", mode, ("forward", "reverse"))
    matrices = [real(f"jacobians[{i}]", each, "m n") for i, each in enumerate(jacobians)]
    if not matrices:
        raise ValueError("jacobians must hold at least one matrix.")
    for i, (inner, outer) in enumerate(pairwise(matrices)):
        if outer.shape[1] != inner.shape[0]:
            raise ValueError(f"jacobians[{i + 1}] must have {inner.shape[0]} columns, got shape {outer.shape}.")
    if mode == "forward":
        product = matrices[0]
        for outer in matrices[1:]:
            product = outer @ product
        return product
    product = matrices[-1]
    for inner in matrices[-2::-1]:
        product = product @ inner
    return product


@implements("M24.01")
class ChainModel(eqx.Module):
    r"""$z_1=\sigma(W_x^1x)$, $z_\ell=\sigma(W_z^\ell z_{\ell-1}+W_x^\ell x)$: the input enters at every layer.

    `hidden` has shape (L - 1, d, d), for the layers from the second on; `inputs` has shape (L, d, d_x).
    """

    hidden: jax.Array
    inputs: jax.Array
    activation: str = eqx.field(static=True)

    def __init__(self, depth: int, width: int, inputs: int, activation: str = "tanh", *, key: PRNGKeyArray):
        depth, width, inputs = whole("depth", depth), whole("width", width), whole("inputs", inputs)
        activation_pair(activation)
        hidden_key, input_key = jax.random.split(key)
        self.hidden = jax.random.normal(hidden_key, (depth - 1, width, width)) / jnp.sqrt(width)
        self.inputs = jax.random.normal(input_key, (depth, width, inputs)) / jnp.sqrt(inputs)
        self.activation = activation

    def states(self, x: Float[ArrayLike, "_"]) -> tuple[Float[Array, "_ _"], Float[Array, "_ _"]]:
        r"""All $z_1,\dots,z_L$, and the slopes $\sigma'$ there: two arrays of shape (L, d)."""
        x = real("x", x, f"{self.inputs.shape[2]}")
        value, slope = activation_pair(self.activation)
        pre = self.inputs[0] @ x
        states, slopes = [value(pre)], [slope(pre)]
        for weights, injected in zip(self.hidden, self.inputs[1:], strict=True):
            pre = weights @ states[-1] + injected @ x
            states.append(value(pre))
            slopes.append(slope(pre))
        return jnp.stack(states), jnp.stack(slopes)

    def __call__(self, x: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
        return self.states(x)[0][-1]


class ChainJacobian(NamedTuple):
    """Derivatives of the loss by `hidden` and `inputs`, each with the axis of the losses in front."""

    hidden: jax.Array
    inputs: jax.Array

    __repr__ = shown


@implements("M24.02")
def reverse_mode(
    chain: ChainModel, x: Float[ArrayLike, "..."], loss_jacobian: Float[ArrayLike, "o _"]
) -> ChainJacobian:
    r"""$\hat z_\ell=\hat z_{\ell+1}\,\partial m_{\ell+1}/\partial z$ downwards; by the way the parameters' derivatives.

    `loss_jacobian` is $\hat z_L=\partial\rho/\partial z_L$ at the output of the chain, of shape (d_O, d).
    """
    x, signal = real("x", x), real("loss_jacobian", loss_jacobian, f"o {chain.inputs.shape[1]}")
    states, slopes = chain.states(x)
    depth, hidden, inputs = states.shape[0], [], []
    for layer in range(depth - 1, -1, -1):
        pre = signal * slopes[layer]
        inputs.insert(0, jnp.einsum("oi,j->oij", pre, x))
        if layer > 0:
            hidden.insert(0, jnp.einsum("oi,j->oij", pre, states[layer - 1]))
            signal = pre @ chain.hidden[layer - 1]
    return ChainJacobian(_stack(hidden, signal, chain), jnp.stack(inputs, 1))


@implements("M24.04")
def forward_mode(
    chain: ChainModel, x: Float[ArrayLike, "..."], loss_jacobian: Float[ArrayLike, "o _"]
) -> ChainJacobian:
    r"""$\tilde z_\ell=\partial m_\ell/\partial\theta+(\partial m_\ell/\partial z)\tilde z_{\ell-1}$ upwards.

    $\tilde z_\ell$ has a column for every one of the $d_\theta$ parameters, which is what makes it
    dear. The derivative of the loss comes last.
    """
    x, final = real("x", x), real("loss_jacobian", loss_jacobian, f"o {chain.inputs.shape[1]}")
    states, slopes = chain.states(x)
    (depth, width), hidden, inputs = states.shape, chain.hidden.size, chain.inputs.size
    diagonal = jnp.arange(width)

    def own(layer):
        """The derivative of one layer by its own parameters, a column for each parameter of the whole chain."""
        by_hidden = jnp.zeros((width, depth - 1, width, width), slopes.dtype)
        by_inputs = jnp.zeros((width, depth, width, x.size), slopes.dtype)
        injected = jnp.einsum("i,j->ij", slopes[layer], x)
        by_inputs = by_inputs.at[diagonal, layer, diagonal].set(injected)
        if layer > 0:
            recurrent = jnp.einsum("i,j->ij", slopes[layer], states[layer - 1])
            by_hidden = by_hidden.at[diagonal, layer - 1, diagonal].set(recurrent)
        return jnp.concatenate([by_hidden.reshape(width, hidden), by_inputs.reshape(width, inputs)], 1)

    tangents = own(0)
    for layer in range(1, depth):
        tangents = own(layer) + (slopes[layer][:, None] * chain.hidden[layer - 1]) @ tangents
    jacobian = final @ tangents
    lead = jacobian.shape[:1]
    return ChainJacobian(
        jacobian[:, :hidden].reshape(lead + chain.hidden.shape), jacobian[:, hidden:].reshape(lead + chain.inputs.shape)
    )


def _stack(parts, signal, chain):
    # a chain of one layer has no hidden weights
    return jnp.stack(parts, 1) if parts else jnp.zeros((signal.shape[0], *chain.hidden.shape), signal.dtype)
