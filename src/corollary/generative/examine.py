r"""Does a sampler cheat? It may repeat itself, recite its training data, leave modes out, or lie about its likelihood.

```python
found = examine(sample, train, test, log_prob=log_prob, key=key)
found.birthday.support, found.copying.share, found.modes.missing, found.told_apart.p_value, found.normaliser.value
```
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import ArrayLike, Float, PRNGKeyArray

from corollary._show import shown
from corollary._validate import labels as checked_labels
from corollary._validate import real, whole
from corollary.generative._distances import drawn, tables
from corollary.generative._exact import more_in_first
from corollary.generative.birthday import BirthdayTest, birthday_test
from corollary.generative.normaliser import HeldOut, Normaliser, held_out, log_normaliser
from corollary.generative.recall import mode_counts, nearest_training
from corollary.generative.two_sample import TwoSample, two_sample

#: nearer to the training data than a quarter of what is usual for test examples is a near copy
NEAR = 0.25
#: a mode is missing that comes less than half as often as in the test data, beyond what chance does once in a thousand
HALF, CHANCE = 0.5, 1e-3


class Copying(NamedTuple):
    """Near copies of training examples: their shares among samples and among test examples, and by chance (Fisher).

    `samples` and `test` are the distances to the nearest training example, `index` that of each sample.
    """

    share: jax.Array
    natural: jax.Array
    p_value: jax.Array
    samples: jax.Array
    test: jax.Array
    index: jax.Array

    __repr__ = shown


class Modes(NamedTuple):
    """How often samples and test examples are of each mode, how likely so few samples are, and which are missing.

    Modes are the classes of the training data where they have labels, else clusters; `p_value` is for all of them
    together.
    """

    samples: jax.Array
    test: jax.Array
    p_value: jax.Array
    missing: jax.Array

    __repr__ = shown


class Examination(NamedTuple):
    """All that was measured of a sampler; `of_data` is the birthday test of as many training examples.

    In both what is a near copy counts as the same. `p_repeats` is how likely so many more repetitions are than the data
    have, by chance (Fisher). `held_out` and `normaliser` are None without a `log_prob`.
    """

    birthday: BirthdayTest
    of_data: BirthdayTest
    p_repeats: jax.Array
    copying: Copying
    modes: Modes
    told_apart: TwoSample
    held_out: HeldOut | None
    normaliser: Normaliser | None

    __repr__ = shown


def examine(
    sample: Callable,
    train: Float[ArrayLike, "n ..."] | tuple,
    test: Float[ArrayLike, "m ..."],
    *,
    log_prob: Callable[[Any], Any] | None = None,
    size: int = 1000,
    modes: int = 20,
    key: PRNGKeyArray,
) -> Examination:
    """Measure whether a sampler repeats itself, copies, leaves modes out, can be told apart, and lies.

    `sample(count, key=key)` returns so many examples, `train` are the examples it was trained on, or a pair of them and
    their class labels, `test` others of the same law, `log_prob(x)` what it says of one example. `size` examples are
    drawn, the same for all measurements. Without labels the modes are `modes` clusters of the training data.
    """
    size, modes = whole("size", size, 16), whole("modes", modes)
    x, kinds = train if isinstance(train, tuple) and len(train) == 2 else (train, None)
    x, test = real("train", x), real("test", test)
    tables(train=x, test=test)
    if min(len(x), len(test)) < 8:
        raise ValueError(f"train and test must hold eight examples each at least, got {len(x)} and {len(test)}.")
    kinds = None if kinds is None else checked_labels("the labels of train", kinds, None)
    keys = jax.random.split(key, 8)
    made = drawn(sample, size, keys[0], x.shape[1:])
    some = lambda rows, count, key: rows[np.asarray(jax.random.permutation(key, len(rows))[:count])]  # noqa: E731
    few = some(test, size, keys[2])
    copying, near = _copying(made, few, x)
    rows = min(size, len(x))
    birthday = birthday_test(lambda count, *, key: made[:count], rows, tolerance=near, key=keys[3])
    of_data = birthday_test(lambda count, *, key: some(x, count, key), rows, tolerance=near, key=keys[1])
    return Examination(
        birthday,
        of_data,
        more_in_first(rows - birthday.distinct, rows - of_data.distinct, rows, rows),
        copying,
        _modes(made, few, x, kinds, min(modes, len(x)), keys[4]),
        two_sample(made, few, key=keys[5]),
        None if log_prob is None else held_out(log_prob, some(x, size, keys[7]), few),
        None if log_prob is None else log_normaliser(log_prob, made, key=keys[6]),
    )


def _copying(made, test, train) -> tuple[Copying, jax.Array]:
    ours, theirs = nearest_training(made, train), nearest_training(test, train)
    limit = NEAR * jnp.median(theirs.distance)
    copies, natural = jnp.sum(ours.distance <= limit), jnp.sum(theirs.distance <= limit)
    chance = more_in_first(copies, natural, len(made), len(test))
    shares = copies / len(made), natural / len(test)
    return Copying(*shares, chance, ours.distance, theirs.distance, ours.index), limit


def _modes(made, test, train, kinds, count, key) -> Modes:
    centres = _centres(train, count, key) if kinds is None else train
    ours, theirs = mode_counts(made, centres, kinds), mode_counts(test, centres, kinds)
    # so many test examples among those of this mode, if samples were as likely to be
    chance = jax.vmap(lambda a, b: more_in_first(b, a, len(test), len(made)))(ours, theirs)
    chance = jnp.minimum(1.0, len(ours) * chance)
    few = ours / len(made) < HALF * theirs / len(test)
    return Modes(ours, theirs, chance, (chance < CHANCE) & few)


def _centres(train, count, key):
    """Means of clusters of the training data."""
    from sklearn.cluster import KMeans

    rows, seed = np.asarray(train).reshape(len(train), -1), int(jax.random.randint(key, (), 0, 2**31 - 1))
    found = KMeans(min(count, len(np.unique(rows, axis=0))), n_init=1, max_iter=25, random_state=seed).fit(rows)
    return found.cluster_centers_.reshape(-1, *train.shape[1:])
