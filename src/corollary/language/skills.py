r"""Text-pieces and the skills they need: clusters drawn at random, competence, and pieces that are joined.

A text-piece needs $k$ skills, drawn one by one, so that one may come twice. Errors are numbers per piece: the loss on
its cloze questions, or 1 where these were answered wrongly and 0 elsewhere.
"""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Bool, Float, Int, PRNGKeyArray

from corollary._show import shown
from corollary._validate import labels, positive, real, whole, within
from corollary.catalog import implements
from corollary.language._laws import law as probabilities

MOST = 2**24  # tuples of skills that are told apart


@implements("T15.29")
class SkillCluster(eqx.Module):
    """A bipartite graph: `edges` (pieces, k) are the skills of each text-piece, `weights` (pieces,) its measure."""

    edges: jax.Array
    weights: jax.Array
    skills: int = eqx.field(static=True)

    def __init__(self, edges: Int[ArrayLike, "t k"], skills: int, weights: Float[ArrayLike, "t"] | None = None):
        dims, self.skills = {}, whole("skills", skills)
        self.edges = labels("edges", edges, self.skills, "t k", dims)
        t = self.edges.shape[0]
        if weights is None:
            weights = jnp.full(t, 1 / t, jnp.result_type(float))
        self.weights = positive("weights", real("weights", weights, "t", dims))

    @classmethod
    def draw(
        cls, pieces: int, skills: int, k: int, *, key: PRNGKeyArray, law: Float[ArrayLike, "s"] | None = None
    ) -> "SkillCluster":
        """Pieces of equal weight, each with `k` skills drawn independently from `law`, uniformly unless given."""
        pieces, skills, k = whole("pieces", pieces), whole("skills", skills), whole("k", k)
        if law is None:
            return cls(jax.random.randint(key, (pieces, k), 0, skills), skills)
        law = probabilities("law", law, str(skills))
        return cls(jax.random.choice(key, skills, (pieces, k), p=law), skills)

    def incidence(self) -> Int[Array, "t _"]:
        """How often each piece (rows) needs each skill (columns)."""
        rows = jnp.arange(self.edges.shape[0])[:, None]
        return jnp.zeros((rows.shape[0], self.skills), self.edges.dtype).at[rows, self.edges].add(1)


@implements("T15.30")
class TextCorpus(eqx.Module):
    """Clusters (mathematics, newspapers, code) that share their skills and have different text-pieces."""

    clusters: tuple[SkillCluster, ...]

    def __init__(self, clusters: tuple[SkillCluster, ...] | list[SkillCluster]):
        self.clusters = tuple(clusters)
        for cluster in self.clusters:
            _require(cluster)
        if len(counts := {cluster.skills for cluster in self.clusters}) != 1:
            raise ValueError(f"clusters must share one set of skills, got {sorted(counts) or 'no cluster'}.")

    def competence(self, errors: tuple[Float[ArrayLike, "_"], ...]) -> Float[Array, "_ _"]:
        """The competence on every skill (columns) in every cluster (rows), from the errors on the pieces of each."""
        if len(errors) != len(self.clusters):
            raise ValueError(
                f"errors must have one array for each of {len(self.clusters)} clusters, got {len(errors)}."
            )
        return jnp.stack([competence(c, e) for c, e in zip(self.clusters, errors, strict=True)])


@implements("T15.31")
def competence(
    cluster: SkillCluster, errors: Float[ArrayLike, "t"], chosen: Int[ArrayLike, "m"] | None = None
) -> Float[Array, "..."]:
    r"""1 less the mean error over the text-pieces that need a skill: of every skill, or of one tuple of skills.

    The task of a tuple `chosen` has every piece as often as the tuple can be taken out of its $k$ skills: a piece of
    five skills is in five tasks of one skill and in $\binom52$ tasks of pairs, and an error on it counts in all.
    Errors are between 0 and 1. What no piece needs was never answered wrongly: 1.

    >>> cluster = SkillCluster([[0, 1], [0, 2], [1, 2]], 3)
    >>> competence(cluster, [1.0, 0.0, 0.0]).tolist(), float(competence(cluster, [1.0, 0.0, 0.0], [0, 1]))
    ([0.5, 0.5, 1.0], 0.0)
    """
    _require(cluster)
    needed = cluster.incidence()
    errors = within("errors", real("errors", errors, str(needed.shape[0])), 0.0, 1.0)
    if chosen is None:
        often = needed
    else:
        chosen = labels("chosen", chosen, cluster.skills, "m")
        if chosen.shape[0] > (k := cluster.edges.shape[1]):
            raise ValueError(f"chosen must have at most the {k} skills of a piece, got {chosen.shape[0]}.")
        # a skill that is asked for again must be there again
        before = jnp.sum(jnp.tril(chosen[:, None] == chosen, -1), 1)
        often = jnp.prod(jnp.maximum(needed[:, chosen] - before, 0), 1)
    wrong, total = (cluster.weights * errors) @ often, cluster.weights @ often
    return 1 - jnp.where(total > 0, wrong / jnp.where(total > 0, total, 1.0), 0.0)


@implements("T15.32")
def error_set(losses: Float[ArrayLike, "t"]) -> Bool[Array, "t"]:
    r"""The text-pieces on which a model makes a mistake: those with a loss of $\frac12$ or more on their questions.

    They are at most the share $2\delta$ of all, if the mean loss is $\delta$.
    """
    return within("losses", real("losses", losses, "t"), 0.0) >= 0.5


class Recombined(NamedTuple):
    """A cluster whose pieces are several joined ones and whose skills are tuples, and the losses on its pieces."""

    cluster: SkillCluster
    losses: jax.Array

    __repr__ = shown


@implements("T15.38")
def recombine(cluster: SkillCluster, losses: Float[ArrayLike, "t"], size: int, *, key: PRNGKeyArray) -> Recombined:
    r"""Text-pieces joined at random in groups of $k'=$ `size`: weights and losses add, questions stay as they were.

    The $i$-th skill of each of the joined pieces together are the $i$-th of the new piece's $k$ skills, one of
    $|S|^{k'}$ tuples; the tuple $(s_1,\dots,s_{k'})$ has the number $s_1|S|^{k'-1}+\dots+s_{k'}$.
    """
    _require(cluster)
    pieces, size = cluster.edges.shape[0], whole("size", size)
    losses = within("losses", real("losses", losses, str(pieces)), 0.0)
    if pieces % size:
        raise ValueError(f"size must divide the number of pieces, got {size} and {pieces}.")
    if (tuples := cluster.skills**size) > MOST:
        raise ValueError(
            f"size {size} makes {tuples:,} tuples of {cluster.skills} skills; at most {MOST:,} are possible."
        )
    groups = jax.random.permutation(key, pieces).reshape(-1, size)
    digits = cluster.skills ** jnp.arange(size - 1, -1, -1)
    edges = jnp.sum(cluster.edges[groups] * digits[:, None], 1)
    joined = SkillCluster(edges, tuples, jnp.sum(cluster.weights[groups], 1))
    return Recombined(joined, jnp.sum(losses[groups], 1))


def _require(cluster):
    if not isinstance(cluster, SkillCluster):
        raise TypeError(f"cluster must be a SkillCluster, got {type(cluster).__name__}.")
