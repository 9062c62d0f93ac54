r"""Two predictors on the same examples: exact tests of whether one is better, and what they would have seen.

    won = mcnemar(right, other_right)
    lower = sign_flips(losses - other_losses, groups=classes, key=key)
    holm(jnp.array([won.p, lower.p]))  # paid for: both are looked at

Pairing takes away what makes examples hard for both. A test on single examples asks whether these two predictors differ
on new examples. Two trainings of one recipe with other seeds do differ, a little and in many examples of a kind
together: `groups` of alike examples, whose differences keep or change their signs together, ask for more than that.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, Int, PRNGKeyArray
from scipy.stats import norm
from scipy.stats import t as student

from corollary._show import shown
from corollary._types import Scalar
from corollary._validate import labels, real, whole, within


class Paired(NamedTuple):
    """The two-sided `p`, the mean `difference`, and the `smallest` that would have been seen (infinite: none).

    Seen means p at most the level, with the probability `power` that was asked for, if the differences scatter as they
    do here.
    """

    p: Float[Array, ""]
    difference: Float[Array, ""]
    smallest: Float[Array, ""]
    __repr__ = shown


def mcnemar(
    right: Int[ArrayLike, " n"], other: Int[ArrayLike, " n"], *, level: Scalar = 0.05, power: float = 0.8
) -> Paired:
    r"""McNemar's exact test of whether one of two predictors is right more often: 1 or True where it is right, else 0.

    Of the $N$ examples that one of both has right, the first has $B$. Were both alike, $B$ would be binomial with $N$
    and $1/2$: $p=\min(1,2\,P(\mathrm{Bin}(N,1/2)\le\min(B,N-B)))$. The difference is that of the shares of right
    answers.

    >>> float(mcnemar(jnp.ones(8, bool), jnp.arange(8) < 2).p)  # six wins of six
    0.03125
    """
    dims: dict = {}
    right, other = labels("right", right, 2, "n", dims), labels("other", other, 2, "n", dims)
    within("level", level, 0, 1, open="both")
    n, dtype = len(right), jnp.result_type(float)
    won, lost = jnp.sum(right > other).astype(dtype), jnp.sum(right < other).astype(dtype)
    both = won + lost
    # so many more of one kind, beside what falls evenly now
    more = jnp.arange(n + 1, dtype=dtype)
    seen = _two_sided(both / 2, both + more) <= level
    least = jnp.where(seen.any(), more[jnp.argmax(seen)], jnp.inf)
    reach = _reach(power) * jnp.sqrt(both + jnp.where(jnp.isfinite(least), least, 0.0))
    return Paired(_two_sided(jnp.minimum(won, lost), both), (won - lost) / n, (least + reach) / n)


def sign_flips(
    differences: Float[ArrayLike, " n"],
    *,
    key: PRNGKeyArray,
    groups: Int[ArrayLike, " n"] | None = None,
    draws: int = 4095,
    level: Scalar = 0.05,
    power: float = 0.8,
) -> Paired:
    r"""Whether paired differences have mean zero: as they are against `draws` flips of their signs.

    If the differences are symmetric about zero, independently of each other, the sum is one among equals:
    $p=(1+\#\{|\sum_i\epsilon_id_i|\ge|\sum_id_i|\})/(1+\text{draws})$ is at most $u$ with probability $u$ at most.
    With `groups`, whole numbers from 0, all examples of a group are flipped together, so that only the sums of groups
    need be independent; $k$ groups can show no less than $2^{1-k}$.

    >>> float(sign_flips(jnp.array([1.0, 2.0, -1.0, -2.0]), key=key).p)
    1.0
    """
    dims: dict = {}
    differences = real("differences", differences, "n", dims)
    n = len(differences)
    groups = jnp.arange(n) if groups is None else labels("groups", groups, n, "n", dims)
    within("level", level, 0, 1, open="both")
    draws = whole("draws", draws)
    return _flipped(differences, groups, key, level, draws, _reach(power))


@partial(jax.jit, static_argnames="draws")
def _flipped(differences, groups, key, level, draws, reach) -> Paired:
    n, mean = len(differences), differences.mean()
    rows = jnp.stack([differences, differences - mean, jnp.ones_like(differences)], axis=1)
    sums = jax.ops.segment_sum(rows, groups, num_segments=n)

    def flipped(key):
        return jax.random.rademacher(key, (n,), sums.dtype) @ sums

    found = jax.lax.map(flipped, jax.random.split(key, draws), batch_size=min(draws, 64))
    given, centred, ones = found.T
    # sums in another order are equal up to their rounding
    rounding = 8 * jnp.finfo(sums.dtype).eps * jnp.abs(differences).sum()
    p = (1 + jnp.sum(jnp.abs(given) >= jnp.abs(n * mean) - rounding)) / (1 + draws)
    # with a mean of δ in place of this one a flip reaches the sum as long as |centred + δ ones| ≥ δ n
    above = jnp.where(ones < n, centred / jnp.maximum(n - ones, 1), jnp.inf)
    below = jnp.where(ones > -n, -centred / jnp.maximum(n + ones, 1), jnp.inf)
    last = jnp.sort(jnp.maximum(jnp.maximum(above, below), 0))[::-1]
    allowed = jnp.floor(level * (1 + draws)).astype(int) - 1
    least = jnp.where(allowed >= 0, last[jnp.clip(allowed, 0, draws - 1)], jnp.inf)
    error = jnp.sqrt(jnp.sum(sums[:, 1] ** 2)) / n
    return Paired(p, mean, least + reach * error)


class StandingOut(NamedTuple):
    """The `group` that changed most against the others, the p of that (all groups paid for), and as in `Paired`."""

    group: Int[Array, ""]
    p: Float[Array, ""]
    difference: Float[Array, ""]
    smallest: Float[Array, ""]
    __repr__ = shown


def standing_out(
    right: Int[ArrayLike, " n"],
    other: Int[ArrayLike, " n"],
    groups: Int[ArrayLike, " n"],
    classes: int,
    *,
    level: float = 0.05,
    power: float = 0.8,
) -> StandingOut:
    r"""Whether one of two predictors is right more often in one of several groups: a class that was lost, say.

    Such a change is in one group alone, where flips of groups see little. A group's won less its lost examples, over
    the root of its size, are compared with those of the other groups by Student's t, as they scatter between two seeds
    of one recipe, and must stand McNemar's test in that group too; the larger p counts, as often as there are groups.
    The difference is that of the shares of right answers in the group.

    >>> y = jnp.arange(60) % 4
    >>> found = standing_out(jnp.ones(60, int), y != 3, y, 4)
    >>> int(found.group), float(found.difference)
    (3, 1.0)
    """
    dims: dict = {}
    right, other = labels("right", right, 2, "n", dims), labels("other", other, 2, "n", dims)
    classes = whole("classes", classes, 3)
    groups = labels("groups", groups, classes, "n", dims)
    level, reach = float(within("level", level, 0, 1, open="both")), _reach(power)
    dtype = jnp.result_type(float)
    counted = jnp.stack([right > other, right < other, jnp.ones_like(right)], axis=1).astype(dtype)
    won, lost, size = jax.ops.segment_sum(counted, groups, num_segments=classes).T
    size = jnp.maximum(size, 1)
    moved = (won - lost) / jnp.sqrt(size)
    spread = (jnp.sum(moved**2) - moved**2) / (classes - 1)
    # the law of 1/(1 + t²/freedom) is a beta law; where no other group moved McNemar's test alone decides
    inside = jnp.where(spread > 0, (classes - 1) * spread / ((classes - 1) * spread + moved**2), moved == 0)
    scattered = jax.scipy.special.betainc((classes - 1) / 2, 0.5, inside)
    both = won + lost
    p = jnp.maximum(scattered, _two_sided(jnp.minimum(won, lost), both))
    group = jnp.lexsort((-jnp.abs(moved), p))[0]
    n, both, spread = size[group], both[group], spread[group]
    more = jnp.arange(len(right) + 1, dtype=dtype)
    seen = (_two_sided(both / 2, both + more) <= level / classes) & (more <= n)
    least = jnp.where(seen.any(), more[jnp.argmax(seen)], jnp.inf)
    least = jnp.maximum(least, float(student.isf(level / classes / 2, classes - 1)) * jnp.sqrt(spread * n))
    error = jnp.sqrt(jnp.maximum(both, spread * n))
    smallest = (least + reach * error) / n
    smallest = jnp.where(smallest <= 1, smallest, jnp.inf)  # no more than all of a group can be lost
    return StandingOut(group, jnp.minimum(classes * p[group], 1), (won - lost)[group] / n, smallest)


def among_seeds(value: Scalar, others: Float[ArrayLike, " k"], *, level: float = 0.05, power: float = 0.8) -> Paired:
    r"""Whether a number is another than those of `others`, trainings of one recipe with other seeds: Student's test.

    If all are independent draws of one normal law, $(v-\bar o)/(s\sqrt{1+1/k})$ has Student's law with $k-1$ degrees of
    freedom. The numbers are those of whole networks, such as their loss on the same examples, so that it does not
    matter how examples depend on each other.

    >>> round(float(among_seeds(3.0, jnp.array([1.0, 1.5, 0.5])).p), 3)
    0.074
    """
    value, others = real("value", value, ""), real("others", others, "k")
    if len(others) < 2:
        raise ValueError(f"others must hold at least 2 numbers to have a spread, got {len(others)}.")
    freedom = len(others) - 1
    level, reach = float(within("level", level, 0, 1, open="both")), _reach(power)
    error = jnp.std(others, ddof=1) * (1 + 1 / len(others)) ** 0.5
    difference = value - others.mean()
    # the law of 1/(1 + t²/freedom) is a beta law; without a spread any difference is one
    inside = jnp.where(error > 0, freedom * error**2 / (freedom * error**2 + difference**2), difference == 0)
    p = jax.scipy.special.betainc(freedom / 2, 0.5, inside)
    return Paired(p, difference, (float(student.isf(level / 2, freedom)) + reach) * error)


def holm(p: Float[ArrayLike, " m"]) -> Float[Array, " m"]:
    r"""Holm's p-values: those at most $\alpha$ are rejected, and a true hypothesis with probability $\alpha$ at most.

    The smallest counts $m$ times, the next $m-1$ times, and none less than one before it, whatever depends on what.

    >>> holm(jnp.array([0.01, 0.5, 0.04])).tolist()
    [0.029999999329447746, 0.5, 0.07999999821186066]
    """
    p = real("p", p, "m")
    within("p", p, 0, 1)
    order = jnp.argsort(p)
    raised = jnp.minimum(jax.lax.cummax(p[order] * jnp.arange(len(p), 0, -1)), 1)
    return jnp.zeros_like(p).at[order].set(raised)


def _two_sided(few, both):
    """Twice the probability of at most `few` of `both` tosses of a coin; 1 without a toss."""
    tail = jax.scipy.special.betainc(jnp.maximum(both - few, 0.5), few + 1, 0.5)
    return jnp.where(both > few, jnp.minimum(2 * tail, 1), 1.0)


def _reach(power: float) -> float:
    """How many standard errors beyond the last that is seen a difference must lie to be seen with this probability."""
    return float(norm.ppf(within("power", power, 0.5, 1, open="high")))
