"""The birthday paradox, and what it tells about the number of examples that a sampler can make."""

import jax
import jax.numpy as jnp
import numpy as np

from corollary.evidence import Size, at_least, at_most, claim, control, equal, estimate, frequency_at_most
from corollary.generative import birthday_test, duplicate_probability, memorising_generator


def _has_duplicate(key, law, shape):
    """Whether each row of draws from a law on whole numbers holds one of them twice."""
    drawn = jnp.searchsorted(jnp.cumsum(law)[:-1], jax.random.uniform(key, shape))
    return jnp.any(jnp.diff(jnp.sort(drawn, 1), axis=1) == 0, 1)


@claim(rows=("T16.17",), full={"runs": 100_000})
def birthday_paradox(key, *, runs: Size = 20_000):
    r"""Of N equally likely outcomes a sample of twice the root of N holds one twice with probability 1 - 1/e at least.

    The probability is $1-\prod_{i<s}(1-\frac iN)$. Of all $N$ with the same $s=\lceil2\sqrt N\rceil$ it is least at
    $N=\lfloor s^2/4\rfloor$; for these $N$ up to a million it is above $1-\frac1e$, and it tends to $1-e^{-2}$. Among
    23 people two share a birthday with probability 0.5073. Draws have duplicates as often. Outcomes that are not
    equally likely have them sooner. With half the root of $N$ it is less.
    """
    sizes = (2, 3, 4, 5, 7, 10, 20, 38, 100, 316, 1000, 2000)

    @jax.jit
    def measure(key):
        exact = [duplicate_probability(float(s * s // 4), s) for s in sizes]
        fewer = [duplicate_probability(float(s * s // 4), max(s // 4, 1)) for s in sizes[5:]]
        even, skew = jnp.full(365, 1 / 365), jnp.arange(1.0, 366.0) / jnp.arange(1.0, 366.0).sum()
        keys = jax.random.split(key)
        drawn = [_has_duplicate(k, law, (runs, 23)) for k, law in zip(keys, (even, skew), strict=True)]
        # no duplicate: 23! times the elementary symmetric polynomial of the probabilities
        symmetric = jnp.zeros(24).at[0].set(1.0)
        symmetric = jax.lax.fori_loop(
            0, 365, lambda i, e: e.at[1:].add(skew[i] * e[:-1] * jnp.arange(1.0, 24.0)), symmetric
        )
        return jnp.stack(exact), jnp.stack(fewer), duplicate_probability(365.0, 23), drawn, 1 - symmetric[23]

    exact, fewer, people, (even, skew), sooner = measure(key)
    yield at_least("probability of a duplicate", exact, 1 - np.exp(-1), x=np.log2(sizes), along="log2 of the size")
    # the next term of the logarithm of the product is of the order 1/s
    yield equal("probability at N = 10^6", exact[-1], 1 - np.exp(-2), rtol=0, atol=2 / sizes[-1])
    yield equal("23 people", people, 0.5073, rtol=0, atol=5e-5)
    yield estimate("23 people, drawn", np.asarray(even, float), people, wrong=people + 0.05)
    yield estimate("birthdays that are not equally likely, drawn", np.asarray(skew, float), sooner, wrong=people)
    yield control(
        "twice the root of N: here half of it",
        at_least("probability of a duplicate", fewer, 1 - np.exp(-1)),
    )


def _recited(examples):
    return memorising_generator(examples, width=1e-6, noise=1e-4).sample


@claim(rows=("T16.18", "T16.17"), full={"runs": 10_000})
def support_from_repetitions(key, *, size: Size = 1200, dim: Size = 20, runs: Size = 3000):
    r"""The number of different examples that a sampler makes is found from how often a sample repeats itself.

    Networks that recite $m=100,\dots,10{,}000$ normal vectors, with a little noise: the birthday test with 1,200
    samples finds $m$ within a factor 2, at least four standard errors at $m=10{,}000$, where some 70 pairs coincide.
    From a normal law itself no two samples are alike. The interval for $m$ equally likely outcomes misses it no more
    often than it says; for outcomes of other probabilities its lower end does. Samples have to be independent: dealt
    out without putting them back, they do not repeat themselves.
    """
    supports = (100, 316, 1000, 3162, 10_000)
    found = []
    for m, k in zip(supports, jax.random.split(key, len(supports)), strict=True):
        x_key, t_key = jax.random.split(k)
        examples = jax.random.normal(x_key, (m, dim))
        found.append(birthday_test(_recited(examples), size, key=t_key).support)
    ratio = np.abs(np.log2(np.array(found, float) / supports))
    yield at_most("factors of two from the support", ratio, 1.0, x=np.log10(supports), along="log10 of the support")
    fresh = birthday_test(lambda count, *, key: jax.random.normal(key, (count, dim)), size, key=key)
    yield equal("samples of a normal law that are different", fresh.distinct, size, rtol=0, atol=0)

    m, few = 100, 40
    skew = jnp.arange(1.0, m + 1.0)

    @jax.jit
    def intervals(key):
        # the interval is a function of how many are different: once for each number of them
        deal = lambda d: lambda count, *, key: (jnp.arange(count) % d)[:, None].astype(float)  # noqa: E731
        table = jax.vmap(lambda d: jnp.stack(birthday_test(deal(d), few, tolerance=0.0, key=key).interval))(
            jnp.arange(1, few + 1)
        )

        def different(key, law):
            drawn = jnp.sort(
                jnp.searchsorted(jnp.cumsum(law)[:-1] / law.sum(), jax.random.uniform(key, (runs, few))), 1
            )
            return 1 + jnp.sum(jnp.diff(drawn, axis=1) > 0, 1)

        first, second = jax.random.split(key)
        even, uneven = table[different(first, 0 * skew + 1) - 1], table[different(second, skew) - 1]
        dealt = lambda count, *, key: jax.random.permutation(key, m)[:count, None].astype(float)  # noqa: E731
        return even, uneven, birthday_test(dealt, few, tolerance=0.0, key=key).support

    even, uneven, dealt = (np.asarray(a) for a in intervals(key))
    yield frequency_at_most("the interval misses the support", (even[:, 0] > m) | (even[:, 1] < m), 0.05)
    yield frequency_at_most("its lower end is above that of a law that is not even", uneven[:, 0] > m, 0.025)
    yield control(
        "independent: here dealt out without putting back",
        at_most("factors of two from the support", np.abs(np.log2(np.minimum(dealt, 1e9) / m)), 1.0),
    )
