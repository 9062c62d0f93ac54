r"""Representations from data without labels: an encoder is trained on a task that the data make by themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray

from corollary._show import shown
from corollary._types import NetworkLike, Scalar
from corollary._validate import one_of, positive, real, whole, within
from corollary.catalog import implements
from corollary.nets import train
from corollary.network import BatchLoss

OBJECTIVES = ("autoencode", "mask", "contrast")


class Pretrained(NamedTuple):
    """The `encoder`, which is the representation, the `head` that its task needed, and the loss of every step."""

    encoder: Any
    head: Any
    losses: jax.Array

    __repr__ = shown


@implements("T17.04")
def pretrain(
    encoder: NetworkLike,
    head: NetworkLike,
    x: Float[ArrayLike, "n ..."],
    objective: str,
    optimiser: optax.GradientTransformation,
    *,
    steps: int,
    key: PRNGKeyArray,
    batch_size: int | None = None,
    view: Callable | None = None,
    share: Scalar = 0.5,
    temperature: Scalar = 0.5,
) -> Pretrained:
    r"""Train `encoder` and `head`, two networks of one example, on the loss `pretraining_loss` of `objective`.

    - `"autoencode"`: the head gives the example back from its code.
    - `"mask"`: entries are set to 0 with probability `share`, and the head gives these.
    - `"contrast"`: `view(x, key)` changes an example at random in what does not matter, and two views of one example
      are told from those of all others of the batch by the direction of the head's output.
    """
    x, options = _checked(encoder, head, x, objective, view, share, temperature)
    batch_size = None if batch_size is None else whole("batch_size", batch_size, 1, x.shape[0])

    def loss(networks, x, *, key):
        return _loss(*networks, x, key, *options)

    run = train((encoder, head), BatchLoss(loss), x, optimiser, steps=steps, key=key, batch_size=batch_size)
    return Pretrained(*run.network, run.losses)


@implements("T17.04")
def pretraining_loss(
    encoder: NetworkLike,
    head: NetworkLike,
    x: Float[ArrayLike, "n ..."],
    objective: str,
    *,
    key: PRNGKeyArray,
    view: Callable | None = None,
    share: Scalar = 0.5,
    temperature: Scalar = 0.5,
) -> Float[Array, ""]:
    r"""The loss of task A on a batch `x`, with the arguments of `pretrain`.

    With codes $c(x)$ and head $h$: the mean of $\|x-h(c(x))\|^2$; that of the squared error in a hidden entry; or, for
    unit vectors $u_i$ along $h(c(\cdot))$ of $2n$ views, the mean of
    $-\ln\frac{e^{u_i\cdot u_{i'}/\tau}}{\sum_{j\ne i}e^{u_i\cdot u_j/\tau}}$, $i'$ being the other view of the example.
    """
    x, options = _checked(encoder, head, x, objective, view, share, temperature)
    return _loss(encoder, head, x, key, *options)


def _loss(encoder, head, x, key, objective, view, share, temperature):
    both = jax.vmap(lambda one: head(encoder(one)))
    if objective == "autoencode":
        return jnp.mean(_squares(_same(both(x), x) - x))
    if objective == "mask":
        hidden = jax.random.bernoulli(key, share, x.shape)
        error = jnp.where(hidden, _same(both(jnp.where(hidden, 0.0, x)), x) - x, 0.0)
        return jnp.sum(error**2) / jnp.maximum(jnp.sum(hidden), 1)
    keys = jax.random.split(key, (2, x.shape[0]))
    u = jnp.concatenate([both(jax.vmap(view)(x, k)).reshape(x.shape[0], -1) for k in keys])
    u = u / jnp.sqrt(jnp.maximum(jnp.sum(u**2, 1, keepdims=True), jnp.finfo(u.dtype).tiny))
    n = u.shape[0]
    logits = jnp.where(jnp.eye(n, dtype=bool), -jnp.inf, u @ u.T / temperature)
    other = (jnp.arange(n) + n // 2) % n
    return -jnp.mean(jax.nn.log_softmax(logits)[jnp.arange(n), other])


def _squares(error):
    return jnp.sum(error.reshape(error.shape[0], -1) ** 2, 1)


def _same(output, x):
    if output.shape != x.shape:
        raise ValueError(f"head must give one array of shape {x.shape[1:]} for each code, got {output.shape[1:]}.")
    return output


def _checked(encoder, head, x, objective, view, share, temperature):
    for name, network in (("encoder", encoder), ("head", head)):
        if not callable(network):
            raise TypeError(f"{name} must be a network of one example, got {type(network).__name__}.")
    one_of("objective", objective, OBJECTIVES)
    x = real("x", x)
    if x.ndim == 0:
        raise ValueError("x must have examples along its first axis, got a number.")
    if objective == "contrast" and not callable(view):
        raise TypeError('view must be a function of one example and a key: "contrast" compares two views of each.')
    if objective == "contrast" and x.shape[0] < 2:
        raise ValueError('x must hold at least two examples: "contrast" tells them from each other.')
    share = within("share", real("share", share, ""), 0.0, 1.0, open="both")
    return x, (objective, view, share, positive("temperature", real("temperature", temperature, "")))
