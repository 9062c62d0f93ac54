"""Clusters of text-pieces and skills: their degrees, competence, mistakes, and pieces that are joined."""

import itertools
from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np

from corollary.evidence import Count, Range, Size, at_most, claim, control, equal, estimate, rate
from corollary.language import SkillCluster, TextCorpus, competence, error_set, recombine

Several = Annotated[int, Range(2, 50)]


def _repeats(cluster):
    """The share of text-pieces that need a skill more than once."""
    ordered = jnp.sort(cluster.edges, 1)
    return jnp.mean(jnp.any(ordered[:, 1:] == ordered[:, :-1], 1), dtype=float)


@claim(rows=("T15.29", "T15.30", "T15.31"))
def errors_seen_by_skill(key, *, pieces: Size = 500, skills: Several = 8, k: Several = 5, runs: Count = 300):
    r"""Competence on single skills and on pairs adds up to the error rate; skills rarely come twice.

    Text-pieces draw $k$ skills independently from $\mu_1$, so that skill $s$ has $k|T|\mu_1(s)$ edges in the mean. A
    piece of $k$ skills is in $k$ tasks of single skills and $\binom k2$ of pairs; the mean of $1-$ competence over
    skills, or over pairs, weighted by how often they are needed, is the error rate of the model. In a corpus of several
    clusters this holds in each. With uniform skills a piece needs one of them twice with a probability that falls as
    $|S|^{-1}$; with Zipf's law it falls more slowly.
    """
    numbers = 2 ** np.arange(4, 10)

    @jax.jit
    def measure(key):
        keys = jax.random.split(key, 5)
        # every second skill comes twice as often
        law = (1.0 + jnp.arange(skills) % 2) / jnp.sum(1.0 + jnp.arange(skills) % 2)
        clusters = [SkillCluster.draw(pieces, skills, k, key=each, law=law) for each in jax.random.split(keys[1])]
        errors = jax.random.uniform(keys[2], (2, pieces))
        known = TextCorpus(clusters).competence(tuple(errors))
        pairs = np.array(list(itertools.product(range(skills), repeat=2)))
        both = jax.vmap(lambda pair: competence(clusters[0], errors[0], pair))(pairs)
        drawn = jax.vmap(lambda key: SkillCluster.draw(pieces, skills, k, key=key, law=law).incidence().sum(0))
        zipf = [1 / jnp.arange(1.0, n + 1) for n in numbers.tolist()]
        again = [
            [_repeats(SkillCluster.draw(10_000, int(n), 4, key=keys[4], law=p)) for p in (None, z / z.sum())]
            for n, z in zip(numbers, zipf, strict=True)
        ]
        degrees = drawn(jax.random.split(keys[3], runs))
        return [c.edges for c in clusters], errors, known, both, degrees, law, jnp.array(again)

    edges, errors, known, both, degrees, law, again = measure(key)
    degrees, law = np.asarray(degrees, float), np.asarray(law)
    yield estimate("edges of each skill", degrees, k * pieces * law, wrong=k * pieces / skills)
    # by counting the slots of the pieces, not by the incidence that competence uses
    needed = np.stack([np.bincount(np.asarray(e).ravel(), minlength=skills) for e in edges])
    found = (needed * (1 - np.asarray(known))).sum(1) / (k * pieces)
    yield equal("mean error over skills, in two clusters", found, np.mean(errors, 1), rtol=1e-12)
    slots = list(itertools.permutations(range(k), 2))
    first = np.asarray(edges[0])
    often = sum(np.bincount(first[:, i] * skills + first[:, j], minlength=skills**2) for i, j in slots)
    mean = often @ (1 - np.asarray(both)) / (len(slots) * pieces)
    yield equal("mean error over pairs of skills", mean, np.mean(errors[0]), rtol=1e-12)
    # 6/|S| of 10,000 pieces are 117 where there are fewest: 9 percent, over a factor of 32 in |S|
    yield rate("pieces that need a skill twice", numbers, again[:, 0], -1.0, tolerance=0.2, along="skills")
    yield control(
        "skills are uniform: here Zipf's law",
        rate("pieces that need a skill twice", numbers, again[:, 1], -1.0, tolerance=0.2),
    )


@claim(rows=("T15.32",))
def few_pieces_are_wrong(key, *, pieces: Size = 200, runs: Count = 10_000):
    r"""The share of wrong text-pieces is at most twice the mean loss.

    A piece is wrong if the loss on its questions is $\frac12$ or more. Losses are zero or more, $\delta$ in the mean,
    so that $|Y|\le2\delta|T|$, with equality where each is 0 or $\frac12$. While every loss is $\frac12$ or more all
    pieces are wrong, and there is no competence on any skill; once $\delta<\frac12$ some are right.
    """

    @jax.jit
    def measure(key):
        a_key, b_key, c_key, d_key = jax.random.split(key, 4)
        scale = jnp.exp(jax.random.uniform(a_key, (runs, 1), minval=-4.0, maxval=1.0))
        losses = scale * jax.random.exponential(b_key, (runs, pieces))
        coins = 0.5 * jax.random.bernoulli(c_key, 0.3, (runs, pieces))
        share = lambda x: jnp.mean(jax.vmap(error_set)(x), 1, dtype=float)  # noqa: E731
        first = 0.5 + losses[0]  # every loss is above one half
        untaught = competence(SkillCluster.draw(pieces, 5, 3, key=d_key), error_set(first))
        signed = losses - losses.mean(1, keepdims=True)
        return [(share(x), x.mean(1)) for x in (losses, coins, signed)], untaught

    ((share, delta), (half, coins), (other, zero)), untaught = measure(key)
    yield at_most("share of wrong pieces", share, 2 * delta)
    yield equal("share of wrong pieces, losses 0 or 1/2", half, 2 * coins, rtol=1e-12)
    yield equal("competence where every loss is 1/2 or more", untaught, 0.0, rtol=0, atol=1e-12)
    below = np.asarray(share)[np.asarray(delta) < 0.5]
    yield at_most("share of wrong pieces where the mean loss is below 1/2", below, 1 - 1 / pieces)
    yield control(
        "losses are zero or more: here their mean is taken off", at_most("share of wrong pieces", other, 2 * zero)
    )


@claim(rows=("T15.38",), no_control="an algorithm: joined pieces have the loss and the skills that it says")
def joined_pieces(key, *, pieces: Size = 2000, skills: Size = 4, k: Size = 5, runs: Count = 200):
    r"""Joined text-pieces have the loss of their parts, and draw tuples of skills as pieces draw skills.

    Pieces of equal measure are partitioned at random into groups of $k'$, whose losses add: the mean loss is exactly
    $k'\delta$. Each joined piece has $k$ tuples of $k'$ skills: every tuple has probability $|S|^{-k'}$, and two of one
    piece are the same with that probability too, because they are independent.
    """
    sizes = (2, 4)

    @jax.jit
    def measure(key):
        def one(key):
            draw_key, loss_key, join_key = jax.random.split(key, 3)
            cluster = SkillCluster.draw(pieces, skills, k, key=draw_key)
            losses = jax.random.exponential(loss_key, (pieces,))
            joined = [recombine(cluster, losses, size, key=join_key) for size in sizes]
            edges = joined[0].cluster.edges
            shares = jnp.mean(edges[..., None] == jnp.arange(skills**2), (0, 1), dtype=float)
            same = jnp.mean(edges[:, 0] == edges[:, 1], dtype=float)
            weights = jnp.stack([j.cluster.weights @ j.losses for j in joined])
            return weights / losses.mean(), shares, same

        return jax.vmap(one)(jax.random.split(key, runs))

    growth, shares, same = measure(key)
    yield equal("mean loss after joining, over that before", growth, np.broadcast_to(sizes, growth.shape), rtol=1e-12)
    unordered = skills * (skills + 1) / 2
    yield estimate("share of each pair of skills", shares, skills**-2.0, wrong=1 / unordered)
    yield estimate("two pairs of a piece are the same", same, skills**-2.0, wrong=1 / unordered)
