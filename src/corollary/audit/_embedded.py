"""A subject of tokens as one of their embeddings, which have small changes and gradients where tokens have none."""

from __future__ import annotations

from weakref import WeakKeyDictionary

import jax
import jax.numpy as jnp
import numpy as np

from corollary.audit._sample import some
from corollary.audit.finding import Premise
from corollary.audit.subject import Subject
from corollary.network import LOSSES
from corollary.network._embedded import embedded

#: Numbers of embeddings that are held of a split.
MOST = 2**26
PREMISE = Premise("inputs move by themselves", False, "embeddings of tokens were moved, which need be those of no text")
GIVE = "Give the part behind them as a network of its own, with embeddings as its inputs."

_made: WeakKeyDictionary = WeakKeyDictionary()


def of_words(subject) -> bool:
    """Whether the only input is whole numbers, such as words."""
    leaves = jax.tree.leaves(subject.train[0])
    return len(leaves) == 1 and jnp.issubdtype(leaves[0].dtype, np.integer)


def by_embeddings(subject) -> Subject | str:
    """The subject behind the look-up of its tokens, with at most as many examples as can be held; or a sentence."""
    if subject not in _made:
        _made[subject] = _by_embeddings(subject)
    return _made[subject]


def _by_embeddings(subject) -> Subject | str:
    (x,) = jax.tree.leaves(subject.train[0])
    if subject.loss_name not in LOSSES or subject.weighted:
        return f"The inputs are whole numbers, such as words: only their embeddings have small changes. {GIVE}"
    found = embedded(subject.network, x) if isinstance(subject.train[0], jax.Array) else "the inputs have names"
    if isinstance(found, str):
        return f"The inputs are whole numbers, such as words, and {found}: only embeddings have small changes. {GIVE}"
    size = int(np.prod(jax.eval_shape(found.rows, x[:1]).shape))

    def moved(split):
        x, y = some(subject.data(split), max(1, MOST // size), jax.random.key(0))
        return found.rows(x), y

    return Subject(found.after, subject.loss_name, *map(moved, subject.splits))
