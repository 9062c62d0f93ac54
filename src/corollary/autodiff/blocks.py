r"""Backpropagation for a stack of blocks of any kind, $h^\ell=F^\ell[\theta^\ell](h^{\ell-1})$.

A block is a function and its two vector-Jacobian products: to its input and to its parameters. The recursion
$\delta^\ell=[\partial h^{\ell+1}/\partial h^\ell]^\top\delta^{\ell+1}$ needs to know nothing else, uses every block
once, and is therefore linear in the depth.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import ArrayLike, Float, PyTree

from corollary._show import shown
from corollary._validate import real
from corollary.autodiff.activations import activation_pair
from corollary.catalog import implements


class Block(NamedTuple):
    r"""`forward(params, h)` gives the output and what to keep for the way back; `pull(params, h, kept, delta)` gives
    $[\partial F/\partial h]^\top\delta$ and $[\partial F/\partial\theta]^\top\delta$."""

    forward: Callable
    pull: Callable


class BlockGradient(NamedTuple):
    r"""The output, the gradients by the parameters of each block, and $\delta^0..\delta^L$, the first by the input."""

    output: jax.Array
    params: tuple
    deltas: tuple

    __repr__ = shown


@implements("E03.01")
def block_backprop(
    blocks: Iterable[Any], params: PyTree, x: Float[ArrayLike, "..."], output_gradient: Callable
) -> BlockGradient:
    r"""Run the blocks forwards, then backwards from `output_gradient(h)`, the $\delta^L$ of the loss at the output."""
    blocks, params = list(blocks), list(params)
    if len(blocks) != len(params) or not blocks:
        raise ValueError(
            f"blocks and params must have the same length, at least 1, got {len(blocks)} and {len(params)}."
        )
    states, kept = [real("x", x)], []
    for block, theta in zip(blocks, params, strict=True):
        out, keep = block.forward(theta, states[-1])
        states.append(out)
        kept.append(keep)
    delta = real("output_gradient", output_gradient(states[-1]))
    if delta.shape != states[-1].shape:
        raise ValueError(f"output_gradient must give shape {states[-1].shape} like the output, got {delta.shape}.")
    deltas, gradients = [delta], []
    for block, theta, h, keep in zip(blocks[::-1], params[::-1], states[-2::-1], kept[::-1], strict=True):
        delta, gradient = block.pull(theta, h, keep, delta)
        deltas.insert(0, delta)
        gradients.insert(0, gradient)
    return BlockGradient(states[-1], tuple(gradients), tuple(deltas))


def dense_block(activation: str = "tanh") -> Block:
    r"""$h\mapsto\phi(Wh+b)$, with params `(W, b)`, W of shape (outputs, inputs)."""
    phi, slope = activation_pair(activation)

    def forward(params, h):
        weights, bias = params
        pre = weights @ h + bias
        return phi(pre), slope(pre)

    def pull(params, h, slopes, delta):
        pre = delta * slopes
        return params[0].T @ pre, (jnp.einsum("i,j->ij", pre, h), pre)

    return Block(forward, pull)


def residual_block(activation: str = "tanh") -> Block:
    r"""$h\mapsto h+\phi(Wh+b)$, params as in `dense_block` with a square W."""
    inner = dense_block(activation)

    def forward(params, h):
        out, slopes = inner.forward(params, h)
        return h + out, slopes

    def pull(params, h, slopes, delta):
        below, gradient = inner.pull(params, h, slopes, delta)
        return delta + below, gradient

    return Block(forward, pull)


def softmax_block() -> Block:
    r"""$h\mapsto\mathrm{softmax}(h)$, without parameters (`params` is an empty tuple); its Jacobian is symmetric."""

    def forward(params, h):
        p = jax.nn.softmax(h)
        return p, p

    return Block(forward, lambda params, h, p, delta: (p * (delta - p @ delta), ()))
