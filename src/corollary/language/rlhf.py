r"""Reward against distance from a reference: the objective of RLHF on a finite set of answers, exactly.

Answers lie along the last axis, of one prompt or of many.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray

from corollary._show import shown
from corollary._types import Scalar
from corollary._validate import positive, real, whole
from corollary.catalog import implements
from corollary.language._laws import law


class AlignedPolicy(NamedTuple):
    """A policy (probabilities of the answers) and the value of the objective there."""

    policy: jax.Array
    value: jax.Array

    __repr__ = shown


@implements("T15.23")
def rlhf_objective(
    policy: Float[ArrayLike, "... k"],
    reward: Float[ArrayLike, "... k"],
    reference: Float[ArrayLike, "... k"],
    beta: Scalar,
) -> Float[Array, "..."]:
    r"""$\mathbb E_{y\sim\pi}r(y)-\beta\,\mathrm{KL}(\pi\|\pi_{\rm ref})$; $-\infty$ where the reference is 0.

    >>> float(rlhf_objective([0.5, 0.5], [1.0, 0.0], [0.5, 0.5], 1.0))
    0.5
    """
    dims = {}
    policy, reward = law("policy", policy, dims=dims), real("reward", reward, "... k", dims)
    reference, beta = law("reference", reference, dims=dims), positive("beta", real("beta", beta, ""))
    return _objective(policy, reward, reference, beta)


@implements("T15.24")
def rlhf_optimum(
    reward: Float[ArrayLike, "... k"], reference: Float[ArrayLike, "... k"], beta: Scalar
) -> AlignedPolicy:
    r"""The best policy $\frac1Z\pi_{\rm ref}(y)e^{r(y)/\beta}$ and its value $\beta\ln Z$, where all of it sums to 1.

    An answer is more probable than under the reference exactly if its reward is above that value.

    >>> rlhf_optimum([jnp.log(3.0), 0.0], [0.5, 0.5], 1.0).policy.round(4).tolist()
    [0.75, 0.25]
    """
    dims = {}
    reward, reference = real("reward", reward, "... k", dims), law("reference", reference, dims=dims)
    beta = positive("beta", real("beta", beta, ""))
    tilted = jnp.where(reference > 0, jnp.log(jnp.where(reference > 0, reference, 1.0)) + reward / beta, -jnp.inf)
    return AlignedPolicy(jax.nn.softmax(tilted), beta * jax.nn.logsumexp(tilted, axis=-1))


@implements("T15.23")
def rlhf(
    reward: Float[ArrayLike, "k"],
    reference: Float[ArrayLike, "k"],
    beta: Scalar,
    steps: int,
    *,
    step: Scalar = 1.0,
    batch_size: int | None = None,
    key: PRNGKeyArray | None = None,
) -> AlignedPolicy:
    r"""A softmax policy over the answers, by gradient ascent on `rlhf_objective` from the reference on.

    With `batch_size` and `key` the gradient is that of REINFORCE: answers $y_i$ are drawn from the policy, and
    $\nabla\ln\pi(y_i)$ is weighted by $a_i=r(y_i)-\beta\ln\frac{\pi(y_i)}{\pi_{\rm ref}(y_i)}$ less the mean of the
    other answers' $a_j$. At the optimum all $a_i$ are equal, so that this noise vanishes there.
    """
    dims = {}
    reward, reference = real("reward", reward, "k", dims), law("reference", reference, "k", dims)
    beta, step = positive("beta", real("beta", beta, "")), positive("step", real("step", step, ""))
    steps = whole("steps", steps)
    if (batch_size is None) != (key is None):
        raise ValueError("batch_size and key must be given together: one draws that many answers, with the other.")
    batch_size = None if batch_size is None else whole("batch_size", batch_size, 2)
    seen = reference > 0
    logs = jnp.where(seen, jnp.log(jnp.where(seen, reference, 1.0)), -jnp.inf)

    def climb(logits, key):
        log_policy = jax.nn.log_softmax(logits)
        policy, gain = jnp.exp(log_policy), reward - beta * jnp.where(seen, log_policy - logs, 0.0)
        if key is None:
            gradient = policy * (gain - policy @ gain)
        else:
            drawn = jax.random.categorical(key, logits, shape=(batch_size,))
            a = gain[drawn]
            over = (a - jnp.mean(a)) * batch_size / (batch_size - 1)  # less the mean of the others
            gradient = jnp.zeros_like(policy).at[drawn].add(over / batch_size) - policy * jnp.mean(over)
        return logits + step * gradient, None

    keys = None if key is None else jax.random.split(key, steps)
    logits, _ = jax.lax.scan(climb, logs, keys, length=steps)
    policy = jax.nn.softmax(logits)
    return AlignedPolicy(policy, _objective(policy, reward, reference, beta))


def _objective(policy, reward, reference, beta):
    both = (policy > 0) & (reference > 0)
    ratio = jnp.log(jnp.where(both, policy, 1.0)) - jnp.log(jnp.where(both, reference, 1.0))
    value = jnp.sum(policy * (reward - beta * ratio), axis=-1)
    return jnp.where(jnp.any((policy > 0) & (reference == 0), axis=-1), -jnp.inf, value)
