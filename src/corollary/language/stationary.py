r"""Long texts of Markov chains, without drawing any: how often each token comes, and what a model pays for it."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.scipy.special import rel_entr, xlogy
from jaxtyping import Array, Float

from corollary.catalog import implements
from corollary.language._laws import law
from corollary.language.models import MarkovChain

SQUARINGS = 52  # 2^52 steps: what has not mixed by then is not connected as far as double precision can tell


@implements("T15.09")
def long_run_law(chain: MarkovChain) -> Float[Array, "k"]:
    r"""The share of each token in an endless text, $\lim_N\frac1N\sum_{n\le N}\mu P^n$ from its start $\mu$.

    The powers of $\frac{I+P}2$ go to the same limit, without its cycles, and are found by squaring. A chain that falls
    into one of several parts, as greedy decoding does, ends in each as often as the start says.

    >>> print(long_run_law(MarkovChain([1.0, 0.0], [[0.5, 0.5], [0.25, 0.75]])).round(4))
    [0.333 0.667]
    """
    _check(chain=chain)
    p = chain.transition
    lazy = (jnp.eye(p.shape[0], dtype=p.dtype) + p) / 2

    def squared(carry, _):
        return jax.lax.cond(carry[1], lambda power: (power, jnp.ones((), bool)), _square, carry[0]), None

    (lazy, _), _ = jax.lax.scan(squared, (lazy, jnp.zeros((), bool)), None, length=SQUARINGS)
    found = chain.initial @ lazy
    return found / jnp.sum(found)


@implements("T15.06", "T15.09")
def cross_entropy_rate(source: MarkovChain, model: MarkovChain) -> Float[Array, ""]:
    r"""$-\sum_{a,b}\pi(a)P(a,b)\ln Q(a,b)$: the loss per token of the model $Q$ on endless text of the source $P$.

    $\pi$ is the source's `long_run_law`. It is the source's entropy rate if both are the same, and infinite if the
    source writes what the model excludes.
    """
    _check(source=source, model=model)
    return _mean_over_contexts(_surprise, source, model)


@implements("T15.09")
def excess_entropy(source: MarkovChain, model: MarkovChain) -> Float[Array, ""]:
    r"""$\sum_a\pi(a)\,\mathrm{KL}(P(a,\cdot)\|Q(a,\cdot))$: what $Q$ pays per token beyond the entropy of $P$.

    >>> even, odd = MarkovChain([0.5, 0.5], [[0.5, 0.5]] * 2), MarkovChain([0.5, 0.5], [[0.25, 0.75]] * 2)
    >>> round(float(excess_entropy(even, odd)), 4)
    0.1438
    """
    _check(source=source, model=model)
    return _mean_over_contexts(rel_entr, source, model)


@implements("T15.19")
def decoder_perplexity(chain: MarkovChain, rule: Callable) -> Float[Array, ""]:
    r"""The perplexity of text that is decoded from `chain` by a rule, under `chain` itself.

    `rule` takes laws (last axis) and gives those that tokens are drawn from: `lambda p: top_k_filter(p, 40)`, with 1
    for greedy search, `top_p_filter`, `tempered`, or these after each other. Nothing is drawn:
    $\exp(-\sum_{a,b}\pi_K(a)K(a,b)\ln Q(a,b))$ with the rule's transitions $K$, their stationary law, and the chain's
    $Q$.
    """
    _check(chain=chain)
    if not callable(rule):
        raise TypeError(f"rule must be a function of laws, got {type(rule).__name__}.")
    laws = jnp.concatenate([chain.initial[None], chain.transition])
    decoded = law("rule(p)", rule(laws), f"{laws.shape[0]} {laws.shape[1]}")
    return jnp.exp(_mean_over_contexts(_surprise, MarkovChain(decoded[0], decoded[1:]), chain))


def _square(power):
    """Twice as many steps, and whether that changed nothing any more."""
    twice = power @ power
    twice = twice / jnp.sum(twice, -1, keepdims=True)  # rounding would double with every squaring
    rounding = power.shape[0] * jnp.finfo(power.dtype).eps
    return twice, jnp.all(jnp.abs(twice - power) <= rounding * power)


def _mean_over_contexts(cost, source, model):
    share = long_run_law(source)
    costs = jnp.sum(cost(source.transition, model.transition), -1)
    return jnp.sum(jnp.where(share > 0, share * jnp.where(share > 0, costs, 0.0), 0.0))


def _surprise(p, q):
    return -xlogy(p, q)


def _check(**chains):
    for name, chain in chains.items():
        if not isinstance(chain, MarkovChain):
            raise TypeError(f"{name} must be a MarkovChain, got {type(chain).__name__}.")
    sizes = {name: chain.initial.shape[0] for name, chain in chains.items()}
    if len(set(sizes.values())) > 1:
        raise ValueError(
            f"{' and '.join(sizes)} must have as many tokens, got {' and '.join(map(str, sizes.values()))}."
        )
