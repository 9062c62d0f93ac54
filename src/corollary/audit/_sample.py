"""Some of the data, and what that costs in certainty."""

from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from scipy import stats
from scipy.special import betaincinv

from corollary.network.batches import each


def some(data, count: int, key):
    """At most `count` examples, drawn without replacement; all of them, in order, when there are no more."""
    n = jax.tree.leaves(data)[0].shape[0]
    if n <= count:
        return data
    rows = np.sort(np.asarray(jax.random.permutation(key, n)[:count]))
    return jax.tree.map(lambda a: a[rows], data)


def interval(values, total: int | None = None, z: float = 1.96) -> tuple[float, float]:
    """The 95 % interval of the mean of `values`, drawn without replacement out of `total`: exact when all were seen."""
    values = np.asarray(values, float)
    n = len(values)
    rest = 1.0 if total is None else max(0.0, 1 - n / total)
    error = z * np.sqrt(values.var(ddof=1) / n * rest) if n > 1 else np.inf
    return float(values.mean() - error), float(values.mean() + error)


def welch(x, y, alternative: str = "two-sided") -> float:
    """The chance of means as far apart as those of two samples, were they of one law (Welch); 1 for fewer than two.

    From means and variances: SciPy's test of the samples warns of those that hardly vary, which losses may.
    """
    x, y = np.asarray(x, float), np.asarray(y, float)
    if min(len(x), len(y)) < 2:
        return 1.0
    if not (np.ptp(x) or np.ptp(y)):
        beyond = {"two-sided": x[0] != y[0], "greater": x[0] > y[0], "less": x[0] < y[0]}
        return float(not beyond[alternative])
    facts = (f(a) for a in (x, y) for f in (np.mean, partial(np.std, ddof=1), len))
    return float(stats.ttest_ind_from_stats(*facts, equal_var=False, alternative=alternative).pvalue)


def numbers_of(x, most: int):
    """The floating-point inputs of some examples in rows, about `most` numbers in all; None if there are none."""
    leaves = [a.reshape(a.shape[0], -1) for a in jax.tree.leaves(x) if jnp.issubdtype(a.dtype, np.floating)]
    if not leaves:
        return None
    step = -(-sum(a.size for a in leaves) // most)
    return np.concatenate([np.asarray(a[::step], float) for a in leaves], axis=1)


@eqx.filter_jit
def quadratic_forms(objective, params, data, vector, batch: int):
    """v · ∇²ℓ v for every example, v along all of `params`: what the Rayleigh quotient of a mean averages over."""
    along = ravel_pytree(params)[1](vector)

    def second(examples):
        def losses(t):
            moved = jax.tree.map(lambda p, v: p + t.astype(p.dtype) * v.astype(p.dtype), params, along)
            return jax.vmap(lambda one: objective(moved, jax.tree.map(lambda a: a[None], one)))(examples)

        def slopes(t):
            return jax.jvp(losses, (t,), (jnp.ones_like(t),))[1]

        zero = jnp.zeros((), jnp.result_type(*jax.tree.leaves(params)))
        return jax.jvp(slopes, (zero,), (jnp.ones_like(zero),))[1]

    return each(second, data, min(batch, 256))


def jackknife(statistics, pairs: dict, rows: dict, total: int | None = None, groups: int = 20):
    """Functions of a sample with their 95 % intervals, from leaving out a group of examples at a time.

    `statistics(pairs, rows)` returns a dictionary of numbers; `pairs` holds matrices over pairs of examples, `rows`
    arrays over examples (or None). Returns a dictionary from names to (value, (low, high)): the sample is one of
    `total` without replacement, and its numbers are exact when it is all of them.
    """
    n = jax.tree.leaves(pairs)[0].shape[0]
    groups = max(min(groups, n), 1)
    out = n // groups if n > 1 else 0
    # groups of one size, scattered, so that all of them go through one program
    order = np.random.default_rng(0).permutation(n)[: groups * out].reshape(groups, out)
    kept = np.array([np.setdiff1d(np.arange(n), left) for left in order])
    values, without = _left_out(statistics, pairs, rows, jnp.asarray(kept))
    rest = 1.0 if total is None else max(0.0, 1 - n / total)
    # Student's t at 95 %, as many degrees of freedom as groups less one
    quantile = stats.t.ppf(0.975, groups - 1) if groups > 1 else np.inf
    result = {}
    for name, value in values.items():
        value, others = float(value), np.asarray(without[name], float)
        # leaving out d of n: the squared deviations count (n - d)/d over the number of groups
        with np.errstate(invalid="ignore"):  # what is infinite or not a number has no interval
            variance = (n - out) / max(out, 1) * np.mean((others - others.mean()) ** 2)
        error = float(quantile * np.sqrt(variance * rest)) if rest else 0.0
        result[name] = value, (value - error, value + error)
    return result


@partial(jax.jit, static_argnums=0)
def _left_out(statistics, pairs, rows, kept):
    def without(keep):
        few = jax.tree.map(lambda a: a[keep][:, keep], pairs)
        return statistics(few, jax.tree.map(lambda a: a[keep], rows))

    return statistics(pairs, rows), jax.lax.map(without, kept)


def exact_interval(found: Any, total: Any) -> tuple[Any, Any]:
    """Clopper and Pearson's interval at 95 % for the probability of what `found` of `total` draws show; for arrays too.

    By the inverse of the beta law directly, a thousand times as fast as a search for each end.
    """
    found = np.asarray(found, float)
    rest = total - found
    low = np.where(found > 0, betaincinv(np.maximum(found, 1), rest + 1, 0.025), 0.0)
    high = np.where(rest > 0, betaincinv(found + 1, np.maximum(rest, 1), 0.975), 1.0)
    return (float(low), float(high)) if found.ndim == 0 else (low, high)
