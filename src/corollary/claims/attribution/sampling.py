"""Shapley values from random orders and by group testing: unbiased, with guarantees, and at what cost."""

import jax
import jax.numpy as jnp
import numpy as np

from corollary.attribution import (
    Game,
    banzhaf,
    group_constant,
    group_law,
    group_samples_needed,
    permutations_needed,
    shapley,
)
from corollary.evidence import Positive, Probability, Size, claim, control, equal, estimate, frequency_at_most, rate


def _airport(players):
    """A coalition is worth what its largest member is, between 0 and 1; and the values, in closed form."""
    costs = np.arange(1, players + 1) / players
    return Game(players, lambda inside: jnp.max(inside * costs)), np.cumsum(1 / np.arange(players, 0, -1)) / players


def _runs(game, how, samples, runs, key):
    """Estimates of so many independent runs."""
    return jax.vmap(lambda key: shapley(game, how=how, samples=samples, key=key).values)(jax.random.split(key, runs))


def _errors(estimates, exact, doublings):
    """Root mean squared error of means of 1, 2, 4, ... estimates: those of as many times the samples."""
    means = [estimates[:, : 2**k].mean(1) for k in range(doublings)]
    return jnp.stack([jnp.sqrt(jnp.mean(jnp.sum((mean - exact) ** 2, 1))) for mean in means])


def _off(estimates, exact):
    """Distances of estimates from the exact values."""
    return np.linalg.norm(np.asarray(estimates) - exact, axis=1)


@claim(rows=("T10.13",))
def random_orders(key, *, players: Size = 8, runs: Size = 300, doublings: Size = 7):
    r"""Increments along random orders estimate all values without bias, and always sum to what all are worth.

    Along every order the increments telescope to $U([n])-U(\emptyset)$, so that the estimates have this sum whatever
    the number $m$ of orders; their mean is the Shapley value, and their error falls as $m^{-1/2}$.
    """
    first = 4
    game, exact = _airport(players)
    wrong = banzhaf(game).values

    @jax.jit
    def measure(key):
        found = _runs(game, "permutation", first, runs * 2 ** (doublings - 1), key)
        return found, _errors(found.reshape(runs, -1, players), exact, doublings)

    found, errors = measure(key)
    yield equal("sum of the estimates", found.sum(1)[:100], 1.0, rtol=1e-13)
    yield estimate("estimates from four orders", found, exact, wrong=wrong)
    # of 300 runs the root mean square is known to 2 % or so
    yield rate("error", first * 2 ** np.arange(doublings), errors, -0.5, tolerance=0.06, along="orders")


@claim(rows=("T10.14",))
def error_guarantee(key, *, players: Size = 10, epsilon: Positive = 0.7, delta: Probability = 0.05, runs: Size = 1500):
    r"""Of the order of n log n random orders give all Shapley values, with high probability.

    If $|U(S\cup i)-U(S)|\le R$ for all $S$ and $i$, then after $\lceil2R^2\frac n{\epsilon^2}\ln\frac{2n}\delta\rceil$
    orders all $|\hat s_i-s_i|\le\epsilon/\sqrt n$, so $\|\hat s-s\|_2\le\epsilon$, with probability at least
    $1-\delta$. Measured where increments are as large as they may be, 1 and -1: a coalition of odd size is worth 1, one
    of even size 0; all values are 0 for an even number of players.
    """
    game = Game(players, lambda inside: 1.0 * (jnp.sum(inside) % 2))
    larger_game = Game(players, lambda inside: 12.0 * (jnp.sum(inside) % 2))
    enough = int(permutations_needed(players, epsilon, delta, 1.0))
    few = int(permutations_needed(players, epsilon / 7, delta, 1.0)) // 1000

    @jax.jit
    def measure(key):
        one, two = jax.random.split(key)
        drawn = _runs(game, "permutation", enough, runs, one), _runs(game, "permutation", few, runs, two)
        return shapley(game).values, *drawn, _runs(larger_game, "permutation", enough, runs, one)

    exact, guaranteed, hasty, larger = measure(key)
    yield equal("exact values", exact, 0.0, atol=1e-14)
    each = epsilon / players**0.5
    yield frequency_at_most("a value is off by more than ε over root n", np.abs(guaranteed).max(1) > each, delta)
    yield frequency_at_most("all are off by more than ε", _off(guaranteed, 0.0) > epsilon, delta)
    yield control(
        "the number of orders: here a thousandth of it, for ε / 7",
        frequency_at_most("all are off by more than ε", _off(hasty, 0.0) > epsilon / 7, delta),
    )
    yield control(
        "R bounds the increments: here they are twelve times as large",
        frequency_at_most("all are off by more than ε", _off(larger, 0.0) > epsilon, delta),
    )


@claim(rows=("T10.16",))
def group_testing(key, *, players: Size = 6):
    r"""One law of coalitions estimates the differences of all Shapley values at once.

    Draw a size $k$ from 1 to $n-1$ with probability $\frac1Z\big(\frac1k+\frac1{n-k}\big)$, $Z=2\sum_{k<n}\frac1k$, and
    $S$ uniformly among the coalitions of that size. Then $E[Z\,U(S)(1_{i\in S}-1_{j\in S})]=s_i-s_j$ for all $i,j$,
    because $\binom nk/\binom{n-2}{k-1}=\frac{n(n-1)}{k(n-k)}$. If all sizes are equally likely no factor in the place
    of $Z$ makes it so. Expectations are sums over all coalitions.
    """
    sets = np.arange(1, 2**players - 1)
    inside = (sets[:, None] >> np.arange(players)) & 1
    sizes = inside.sum(1)
    shares = np.bincount(sizes, minlength=players)[sizes]

    @jax.jit
    def measure(key):
        table = jax.random.normal(key, (2**players,))

        def expected(law):
            mean = (law[sizes - 1] / shares * table[sets]) @ inside
            return mean[:, None] - mean

        s = shapley(Game.of_values(table)).values
        exact, uniform = s[:, None] - s, expected(jnp.full(players - 1, 1 / (players - 1)))
        fitted = uniform * jnp.sum(uniform * exact) / jnp.sum(uniform**2)
        return group_constant(players) * expected(group_law(players)), exact, fitted

    measured, exact, fitted = measure(key)
    # means of numbers of size 1
    yield equal("expected differences", measured, exact, rtol=0, atol=2e-15)
    yield control(
        "the law of the sizes: here uniform, with the best factor",
        equal("expected differences", fitted, exact, rtol=0, atol=2e-15),
    )


@claim(rows=("T10.17",))
def two_steps(key, *, players: Size = 6, delta: Probability = 0.05, runs: Size = 1500, doublings: Size = 6):
    r"""One value from its increments, all others from differences: no bias, and a number of draws that is enough.

    Estimate $s_1$ from increments, and all $s_1-s_j$ from coalitions drawn for group testing, which serve all $j$ at
    once. The estimates have no bias, their error falls as $m^{-1/2}$, and after $8\max(R,ZB)^2\frac n{\epsilon^2}
    \ln\frac{2n}\delta$ draws of each kind $\|\hat s-s\|_2\le\epsilon$ with probability $1-\delta$, if
    $|U(S\cup i)-U(S)|\le R$ and $|U(S)-\frac12(U(\emptyset)+U([n]))|\le B$.
    """
    epsilon, first = 2.0, 50
    game, exact = _airport(players)
    enough = int(group_samples_needed(players, epsilon, delta, 1.0, 0.5))

    @jax.jit
    def measure(key):
        one, many = jax.random.split(key)
        found = _runs(game, "group", first, 100 * 2 ** (doublings - 1), one)
        errors = _errors(found.reshape(100, -1, players), exact, doublings)
        larger = Game(players, lambda inside: 40 * game.value(inside))
        return found, errors, *(_runs(g, "group", enough, runs, many) for g in (game, larger))

    found, errors, guaranteed, larger = measure(key)
    # equal shares, and for the one who has nearly that nothing
    wrong = np.where(np.abs(exact - 1 / players) > 0.1, 1 / players, 0.0)
    yield estimate("estimates from fifty draws of each kind", found, exact, wrong=wrong)
    # of 100 runs with correlated errors the root mean square is known to 7 % or so
    yield rate("error", first * 2 ** np.arange(doublings), errors, -0.5, tolerance=0.15, along="draws")
    yield frequency_at_most("all are off by more than ε", _off(guaranteed, exact) > epsilon, delta)
    yield control(
        "B and R bound the utilities: here they are 40 times as large",
        frequency_at_most("all are off by more than ε", _off(larger, 40 * exact) > epsilon, delta),
    )
