"""What is measured of a sampler; what the audit makes of it is in tests/audit/test_cheating.py."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.generative import examine

KEY = jax.random.key(0)
RNG = np.random.default_rng(0)
LABELS = RNG.integers(0, 3, 120)
CENTRES = np.array([[0.0, 0.0], [8.0, 0.0], [0.0, 8.0]])
TRAIN = CENTRES[LABELS] + RNG.normal(size=(120, 2))
TEST = CENTRES[RNG.integers(0, 3, 90)] + RNG.normal(size=(90, 2))


def healthy(count, *, key, classes=3):
    at, z = jax.random.split(key)
    return CENTRES[np.asarray(jax.random.randint(at, (count,), 0, classes))] + jax.random.normal(z, (count, 2))


def test_a_healthy_sampler():
    found = examine(healthy, (TRAIN, LABELS), TEST, size=100, key=KEY)
    assert float(found.p_repeats) > 0.01
    assert float(found.copying.p_value) > 0.01
    assert not found.modes.missing.any()
    assert int(found.modes.samples.sum()) == 100
    assert int(found.modes.test.sum()) == 90
    assert float(found.told_apart.p_value) > 0.01
    assert found.held_out is None
    assert found.normaliser is None


def test_copies_are_named_with_their_originals():
    chosen = np.arange(100) % 120
    found = examine(lambda count, *, key: TRAIN[chosen[:count]], TRAIN, TEST, size=100, modes=5, key=KEY)
    assert float(found.copying.share) == 1.0
    np.testing.assert_array_equal(found.copying.index, chosen)
    assert float(found.copying.p_value) < 1e-6


def test_a_class_that_never_comes():
    two = lambda count, *, key: healthy(count, key=key, classes=2)  # noqa: E731
    with_labels = examine(two, (TRAIN, LABELS), TEST, size=100, key=KEY)
    assert with_labels.modes.missing.tolist() == [False, False, True]
    without = examine(two, TRAIN, TEST, size=100, modes=3, key=KEY)
    assert int(without.modes.missing.sum()) == 1


def test_bad_arguments():
    with pytest.raises(ValueError, match=r"of the shape of those of train, \(2,\), got \(90, 1\)"):
        examine(healthy, TRAIN, TEST[:, :1], key=KEY)
    with pytest.raises(ValueError, match=r"must return count = 100 examples, \(100, 2\), got shape \(100, 3\)"):
        examine(lambda count, *, key: jnp.ones((count, 3)), TRAIN, TEST, size=100, key=KEY)
    with pytest.raises(ValueError, match="train and test must hold eight examples each at least, got 120 and 5"):
        examine(healthy, TRAIN, TEST[:5], key=KEY)
    with pytest.raises(ValueError, match="the labels of train must hold labels from 0 or more"):
        examine(healthy, (TRAIN, LABELS - 1), TEST, key=KEY)
    with pytest.raises(ValueError, match="size must be at least 16"):
        examine(healthy, TRAIN, TEST, size=3, key=KEY)
