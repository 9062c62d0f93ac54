r"""Rewards from comparisons: which of two answers was preferred, and the rewards, or the policy, that explain it.

A comparison is a pair of answers, the preferred one first. One prompt has a finite number of answers here; rewards of
several prompts are `vmap`s, because they have nothing to do with each other.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Int

from corollary._show import shown
from corollary._types import Scalar
from corollary._validate import concrete, labels, positive, real, whole, within
from corollary.catalog import implements


class RewardFit(NamedTuple):
    """Rewards of mean 0 that fit comparisons best, the loss there, and the largest entry of its gradient."""

    rewards: jax.Array
    loss: jax.Array
    gradient: jax.Array

    __repr__ = shown


@implements("T15.21")
def bradley_terry(first: Float[ArrayLike, "..."], second: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
    r"""$\Pr[y_1\succ y_2]=\sigma(r_1-r_2)$, how probably an answer of reward $r_1$ is preferred to one of $r_2$.

    >>> round(float(bradley_terry(1.0, 0.0)), 4)
    0.7311
    """
    first, second = real("first", first), real("second", second)
    try:
        return jax.nn.sigmoid(first - second)
    except (TypeError, ValueError):
        got = f"{first.shape} and {second.shape}"
        raise ValueError(f"The shapes of first and second must broadcast, got {got}.") from None


@implements("T15.22")
def reward_loss(rewards: Float[ArrayLike, "n 2"], weights: Float[ArrayLike, "n"] | None = None) -> Float[Array, ""]:
    r"""The mean of $-\ln\sigma(r_1-r_2)$ over comparisons, the preferred answer first.

    `weights` say how often each comparison was seen; their mean is taken by the sum of the weights.

    >>> round(float(reward_loss([[0.0, 0.0]])), 4)
    0.6931
    """
    dims = {}
    rewards = real("rewards", rewards, "n 2", dims)
    terms = jax.nn.softplus(rewards[:, 1] - rewards[:, 0])
    return jnp.mean(terms) if weights is None else _shares(weights, dims) @ terms


@implements("T15.22")
def fit_reward(
    pairs: Int[ArrayLike, "n 2"],
    answers: int,
    *,
    weights: Float[ArrayLike, "n"] | None = None,
    steps: int = 60,
) -> RewardFit:
    r"""The most likely rewards of `answers` answers, from the numbers of the preferred and of the other one.

    Damped Newton steps on `reward_loss`, which is convex. Rewards are known up to a constant; theirs has mean 0. There
    is a finite maximum, and one only, exactly if from every answer a chain of "was preferred to" leads to every other
    one. Where it does not, this is an error: with answers that were never compared, or that always won.

    >>> print(fit_reward([[0, 1], [0, 1], [0, 1], [1, 0]], 2).rewards.round(4))  # odds of 3 to 1
    [ 0.549 -0.549]
    """
    answers, steps, dims = whole("answers", answers, 2), whole("steps", steps), {}
    pairs = labels("pairs", pairs, answers, "n 2", dims)
    n = pairs.shape[0]
    shares = jnp.full(n, 1 / n, jnp.result_type(float)) if weights is None else _shares(weights, dims)
    if concrete(pairs) and concrete(shares):
        _has_maximum(np.asarray(pairs), np.asarray(shares), answers)
    contrast = jax.nn.one_hot(pairs[:, 0], answers, dtype=shares.dtype) - jax.nn.one_hot(
        pairs[:, 1], answers, dtype=shares.dtype
    )
    shift = jnp.full((answers, answers), 1 / answers, shares.dtype)  # the direction that no comparison sees

    def slope(rewards):
        return -contrast.T @ (shares * jax.nn.sigmoid(-contrast @ rewards))

    def newton(rewards, _):
        margin = contrast @ rewards
        curve = shares * jax.nn.sigmoid(margin) * jax.nn.sigmoid(-margin)
        # a direction of next to no curvature is left alone
        direction = jnp.linalg.solve((contrast.T * curve) @ contrast + shift, -slope(rewards))
        size = jnp.max(jnp.abs(contrast @ direction))
        # the third derivative of the loss is at most its second: with this damping it falls in every step
        damping = jnp.where(size > 1e-3, jnp.log1p(size) / jnp.maximum(size, 1e-3), 1.0)
        rewards = rewards + damping * direction
        return rewards - jnp.mean(rewards), None

    rewards, _ = jax.lax.scan(newton, jnp.zeros(answers, shares.dtype), None, length=steps)
    loss = shares @ jax.nn.softplus(-contrast @ rewards)
    return RewardFit(rewards, loss, jnp.max(jnp.abs(slope(rewards))))


@implements("T15.25")
def implicit_reward(
    policy: Float[ArrayLike, "..."], reference: Float[ArrayLike, "..."], beta: Scalar
) -> Float[Array, "..."]:
    r"""$\beta(\ln\pi-\ln\pi_{\rm ref})$, the reward, up to a constant, for which a policy is the optimum of RLHF.

    `policy` and `reference` are logarithms of probabilities of the same answers.
    """
    policy = real("policy", policy)
    reference = real("reference", reference, " ".join(map(str, policy.shape)))
    return positive("beta", real("beta", beta, "")) * (policy - reference)


@implements("T15.26")
def dpo_loss(
    policy: Float[ArrayLike, "n 2"],
    reference: Float[ArrayLike, "n 2"],
    beta: Scalar,
    weights: Float[ArrayLike, "n"] | None = None,
) -> Float[Array, ""]:
    r"""The loss of direct preference optimisation: `reward_loss` of the policy's implicit reward.

    Rows hold the log-probabilities of the preferred and of the other answer, under the policy that is trained and
    under the reference. Any model of answers will do: `sequence_log_probability`, or a table at the pairs.
    """
    return reward_loss(implicit_reward(real("policy", policy, "n 2"), reference, beta), weights)


def _shares(weights, dims):
    """How much of all comparisons each is."""
    weights = within("weights", real("weights", weights, "n", dims), 0.0)
    total = jnp.sum(weights)
    if concrete(total) and not float(total) > 0:
        raise ValueError("weights must not all be zero.")
    return weights / total


def _has_maximum(pairs, shares, answers):
    """Require that wins lead from every answer to every other one."""
    beats = np.zeros((answers, answers), bool)
    beats[tuple(pairs[shares > 0].T)] = True
    if not (linked := _closure(beats | beats.T)).all():
        other = int(np.flatnonzero(~linked[0])[0])
        raise ValueError(f"pairs must connect all answers, but no comparisons lead from answer 0 to {other}.")
    if not (reach := _closure(beats)).all():
        first, second = np.argwhere(~reach)[0]
        raise ValueError(
            f"pairs must have a finite maximum of the likelihood, but no wins lead from answer {first} to {second}: "
            "a certain preference has an infinite reward."
        )


def _closure(linked):
    """Which answers are reached from which, along any number of links."""
    linked = linked | np.eye(len(linked), dtype=bool)
    for _ in range(len(linked).bit_length()):
        linked = linked.astype(float) @ linked > 0
    return linked
