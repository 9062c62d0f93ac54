"""Sequences drawn without replacement."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np

from corollary.evidence import Count, Size, claim, control, equal, estimate
from corollary.language import ConditionalTable, exhaustive_search, stochastic_beam


@claim(rows=("T15.18",))
def drawn_without_replacement(key, *, tokens: Size = 3, draws: Count = 20_000):
    r"""Stochastic beam search draws different sequences, as if from a hat in which each has its probability.

    The sequences $y_1,y_2$ of a beam of width 2 have the probability $p(y_1)\frac{p(y_2)}{1-p(y_1)}$ for
    $y_1\ne y_2$, so that a sequence is among them with
    probability $p(y)+\sum_{z\ne y}p(z)\frac{p(y)}{1-p(z)}$. Independent draws repeat themselves.
    """
    length = 2

    @jax.jit
    def measure(key):
        tree_key, draw_key, other_key = jax.random.split(key, 3)
        tree = ConditionalTable.random(tokens, length, key=tree_key, concentration=2.0)
        everything = exhaustive_search(tree, [0], length)
        place = tokens ** jnp.arange(length - 1, -1, -1)
        p = jnp.zeros(tokens**length).at[everything.tokens @ place].set(jnp.exp(everything.log_probability))
        beam = jax.vmap(lambda k: stochastic_beam(tree, [0], length, 2, key=k))(jax.random.split(draw_key, draws))
        number = beam.tokens @ place
        twice = jax.random.categorical(other_key, jnp.log(p), shape=(draws, 2))
        inside = lambda n: jnp.any(n[:, :, None] == jnp.arange(tokens**length), 1)  # noqa: E731
        return p, number, jnp.exp(beam.log_probability), inside(number), inside(twice)

    p, number, said, inside, twice = (np.asarray(a) for a in measure(key))
    share = p.copy()
    for first, second in itertools.permutations(range(p.size), 2):
        share[second] += p[first] * p[second] / (1 - p[first])
    with_replacement = 1 - (1 - p) ** 2
    yield equal("draws with the same sequence twice", np.mean(number[:, 0] == number[:, 1]), 0.0, rtol=0, atol=0)
    yield equal("probabilities that it reports", said, p[number], rtol=1e-10)
    # the likeliest sequence tells most: draws with and without replacement differ by about p² there
    top = int(np.argmax(p))
    yield estimate("the first of the two", number[:, 0] == top, p[top], wrong=1 / p.size)
    yield estimate("the likeliest sequence is among the two", inside[:, top], share[top], wrong=with_replacement[top])
    rounding = 5 * 0.5 / draws**0.5  # five standard errors of a share
    yield equal("share of beams with each sequence", inside.mean(0), share, rtol=0, atol=rounding)
    yield control(
        "draws are without replacement: here independent",
        equal("share of pairs with the likeliest", twice.mean(0)[top], share[top], rtol=0, atol=rounding),
    )
