"""The kind of overfitting, for methods whose kind is known."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.generalization import Planted, interpolating_polynomial, nearest_neighbour, overfitting
from corollary.generalization.overfitting import _slope

KEY = jax.random.key(0)
LAW = Planted(lambda x: jnp.sin(6 * x), jax.random.uniform, 0.5)


def draw(key, n):
    return LAW.sample(n, key=key)


def test_kinds_and_what_is_reported():
    found = overfitting(
        lambda data, key: nearest_neighbour(*data), draw, (64, 128, 256, 512), truth=LAW.truth, runs=60, key=KEY
    )
    assert found.kind == "tempered"
    np.testing.assert_allclose(found.excess, 0.25, rtol=0.3)
    np.testing.assert_allclose(found.train, 0, atol=1e-20)
    assert found.interval[0] < found.slope < found.interval[1]
    mean = overfitting(
        lambda data, key: lambda x: jnp.sin(6 * x) + jnp.mean(data[1] - jnp.sin(6 * data[0])),
        draw,
        (20, 80, 320, 1280),
        truth=LAW.truth,
        runs=64,
        key=KEY,
    )
    assert mean.kind == "benign"
    assert mean.slope == pytest.approx(-1, abs=0.3)
    assert mean.train.min() > 0.1
    wild = overfitting(
        lambda data, key: interpolating_polynomial(*data), draw, (6, 9, 12, 16), truth=LAW.truth, runs=16, key=KEY
    )
    assert wild.kind == "catastrophic"


def test_what_changes_its_course_is_undecided():
    u = np.log([10, 20, 40, 80])
    v = np.array([0.0, 1.0, 1.0, 0.0])[:, None] + 1e-3 * np.arange(8)
    slope, low, high = _slope(u, v)
    assert low < -0.1 < 0.1 < high
    assert slope == pytest.approx(0, abs=1e-12)


def test_the_slope_against_scipy():
    from scipy.stats import linregress, norm

    u, v = np.log([1.0, 2, 4, 9]), np.array([1.0, 2, 2.5, 4])
    line = linregress(u, v)
    slope, _, high = _slope(u, np.repeat(v[:, None], 5, 1))
    np.testing.assert_allclose([slope, high - slope], [line.slope, line.stderr * norm.isf(0.005)])


def test_sentences():
    fit = lambda data, key: nearest_neighbour(*data)  # noqa: E731
    with pytest.raises(ValueError, match="sizes must be at least four numbers, each larger"):
        overfitting(fit, draw, (10, 20, 20, 40), truth=LAW.truth, key=KEY)
    with pytest.raises(TypeError, match="truth must be a function"):
        overfitting(fit, draw, (10, 20, 30, 40), truth=None, key=KEY)
    with pytest.raises(ValueError, match="fit must predict numbers, got NaN at n = 1"):
        overfitting(lambda data, key: lambda x: x * jnp.nan, draw, (1, 2, 3, 4), truth=LAW.truth, key=KEY)
