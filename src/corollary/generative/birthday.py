r"""The birthday test: how many different examples a sampler can make, from how often a sample repeats itself.

```python
found = birthday_test(generator.sample, 1000, key=key)
found.support, found.interval, found.closest
```
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.scipy.special import betainc
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray

from corollary._show import shown
from corollary._types import Scalar
from corollary._validate import real, whole, within
from corollary.catalog import implements
from corollary.generative._distances import distances, drawn

#: A thousandth of a usual distance, which a quarter of all pairs exceed, may be near. Where a density is even over 8 r,
#: pairs within r are an eighth of those within 8 r on a line, and fewer in more dimensions: where they are clearly more
#: than a quarter they are repetitions with a little noise.
NEAR, WIDER, SHARE, CHANCE = 1e-3, 8.0, 0.25, 1e-3
#: as many pairs are shown to a person
CLOSEST = 20


@implements("T16.17")
def duplicate_probability(support: Float[ArrayLike, "..."], size: int) -> Float[Array, "..."]:
    r"""$1-\prod_{i<s}(1-\frac iN)$: how likely $s$ draws from $N$ equally likely outcomes hold one of them twice.

    >>> round(float(duplicate_probability(365.0, 23)), 4)
    0.5073
    """
    support = within("support", real("support", support), 1.0)
    share = jnp.arange(whole("size", size), dtype=support.dtype) / support[..., None]
    return 1 - jnp.prod(jnp.clip(1 - share, 0), -1)


@implements("T16.18")
class BirthdayTest(NamedTuple):
    r"""How often a sample repeats itself, and what follows for the number of outcomes.

    Of `size` examples `distinct` differ by more than `tolerance` from all before them. `support` is the number of
    equally likely outcomes that leaves so many on average, infinite without a repetition. The lower end of `interval`
    holds for outcomes of any probabilities, which repeat themselves only sooner, the upper end for equal ones.
    `closest` are the most similar pairs (k, 2, ...), to be looked at, and `distances` how far apart they are.
    """

    size: int
    distinct: jax.Array
    support: jax.Array
    interval: tuple
    tolerance: jax.Array
    closest: jax.Array
    distances: jax.Array

    __repr__ = shown


@implements("T16.18")
def birthday_test(
    sample: Callable, size: int, *, tolerance: Scalar | None = None, delta: Scalar = 0.05, key: PRNGKeyArray
) -> BirthdayTest:
    r"""Draw `size` examples by `sample(size, key=key)` and count how many of them are different.

    Examples within `tolerance` are the same, in Euclidean distance. Without it equal ones are, and those within a
    thousandth of a usual distance where they are more than a quarter of the pairs within eight times as far, which
    under a density of that scale they are not; five such pairs suffice. From $N$ equally likely outcomes the number of
    different ones has an exactly known law, of mean $N(1-(1-\frac1N)^s)$; `interval` holds with probability
    1 - `delta`. A sample of $s$ tells supports up to some $s^2$.

    >>> coin = lambda count, *, key: jax.random.bernoulli(key, shape=(count, 1)).astype(float)
    >>> round(float(birthday_test(coin, 50, key=key).support), 3)
    2.0
    """
    size = whole("size", size, 2)
    delta = within("delta", real("delta", delta, ""), 0.0, 1.0, open="both")
    if tolerance is not None:
        tolerance = within("tolerance", real("tolerance", tolerance, ""), 0.0)
    x = drawn(sample, size, key)
    near, distinct, pairs, apart = _repeated(x.reshape(size, -1), tolerance)
    support, low, high = _support(distinct, size, delta.astype(x.dtype))
    return BirthdayTest(size, distinct, support, (low, high), near, x[pairs], apart)


@jax.jit
def _repeated(x, tolerance):
    """The tolerance, how many rows are new when they come, and the closest pairs with their distances."""
    n = len(x)
    apart = distances(x, x)
    before = jnp.tri(n, k=-1, dtype=bool)
    lengths = jnp.where(before, apart, jnp.inf)
    if tolerance is None:
        # each pair once, and infinite entries for the others
        ordered = jnp.sort(lengths.ravel())
        near = NEAR * ordered[3 * n * (n - 1) // 8]
        counts = [jnp.searchsorted(ordered, r, side="right").astype(x.dtype) for r in (0.0, near, WIDER * near)]
        equal, inside, wider = counts  # equal ones are repetitions anyway
        tolerance = jnp.where(_at_least(inside - equal, wider - equal, SHARE) < CHANCE, near, 0.0)
    new = ~jnp.any(lengths <= tolerance, 1)
    k = min(CLOSEST, n * (n - 1) // 2)
    least, at = lax.top_k(-lengths.ravel(), k)
    return jnp.asarray(tolerance, x.dtype), new.sum(), jnp.stack([at // n, at % n], 1), -least


def _at_least(successes, trials, p):
    """The probability of so many successes or more in independent trials."""
    inside = betainc(jnp.maximum(successes, 1), trials - successes + 1, p)
    return jnp.where(successes > 0, inside, 1.0)


@partial(jax.jit, static_argnums=1)
def _support(distinct, size, delta):
    """The support that leaves so many different ones on average, and the ends of its interval."""
    least = jnp.asarray(distinct, delta.dtype)
    # with so many outcomes even one repetition has probability below a quarter of delta
    most = jnp.maximum(2.0 * size**2 / delta, least)

    def bisected(above):
        """Where the condition begins to hold, in the logarithm."""

        def halve(_, ends):
            low, high = ends
            middle = (low + high) / 2
            yes = above(jnp.exp(middle))
            return jnp.where(yes, low, middle), jnp.where(yes, middle, high)

        return jnp.exp(lax.fori_loop(0, 50, halve, (jnp.log(least), jnp.log(most)))[1])

    def mean(support):
        return -support * jnp.expm1(size * jnp.log1p(-1 / jnp.maximum(support, 1 + 1e-6)))

    support = jnp.where(distinct == 1, 1.0, bisected(lambda n: mean(n) >= least))
    tails = lambda n: _tails(n, distinct, size)  # noqa: E731
    low = jnp.where(distinct == 1, 1.0, bisected(lambda n: tails(n)[1] >= delta / 2))
    high = bisected(lambda n: tails(n)[0] <= delta / 2)
    none = distinct == size
    return jnp.where(none, jnp.inf, support), jnp.maximum(low, least), jnp.where(none, jnp.inf, high)


def _tails(support, distinct, size):
    """The probabilities of at most, and of at least, so many different ones among `size` of `support` outcomes."""
    new = jnp.clip(1 - jnp.arange(size + 1) / support, 0)  # the next is new after so many different ones

    def draw(law, _):
        return law * (1 - new) + jnp.roll(law * new, 1), None

    start = jnp.zeros(size + 1, new.dtype).at[0].set(1.0)
    law = lax.scan(draw, start, None, length=size)[0]
    counts = jnp.arange(size + 1)
    return jnp.sum(jnp.where(counts <= distinct, law, 0)), jnp.sum(jnp.where(counts >= distinct, law, 0))
