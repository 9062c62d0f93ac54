"""Exact tails for counts in two samples: given how many there are in all, each sample's share is hypergeometric."""

import jax.numpy as jnp
from jax.scipy.special import gammaln


def more_in_first(first, second, n: int, m: int):
    """How likely `first` or more of all hits fall among the first n of n + m, if any of them may (Fisher)."""
    hits = jnp.asarray(first + second, jnp.result_type(float))
    k = jnp.arange(n + 1, dtype=hits.dtype)
    possible = (k <= hits) & (hits - k <= m)
    k = jnp.where(possible, k, jnp.minimum(hits, n))
    log_law = _log_choose(n, k) + _log_choose(m, jnp.clip(hits - k, 0, m)) - _log_choose(n + m, hits)
    law = jnp.where(possible, jnp.exp(log_law), 0)
    return jnp.sum(jnp.where(jnp.arange(n + 1) >= first, law, 0)) / jnp.sum(law)


def _log_choose(a, b):
    return gammaln(a + 1.0) - gammaln(b + 1) - gammaln(a - b + 1)
