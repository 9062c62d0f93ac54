"""The stuck region, coupled sequences and their decomposition, against closed forms and plain loops."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special

from corollary.landscape import (
    coupled_descent,
    difference_decomposition,
    escape_times,
    separation_time,
    slab_probability,
    stuck_probability_bound,
    stuck_region,
    uniform_ball,
)


def _saddle(x):
    return -0.1 * x[0] ** 2 + 0.5 * x[1] ** 2


def test_slab_probability():
    assert slab_probability(1, 0.3) == pytest.approx(0.3, rel=1e-12)  # an interval
    assert slab_probability(3, 0.2) == pytest.approx(1.5 * (0.2 - 0.2**3 / 3), rel=1e-10)  # Archimedes
    np.testing.assert_allclose(slab_probability(5, np.array([1.0, 2.0])), 1.0)
    points = jax.vmap(lambda k: uniform_ball(30, key=k))(jax.random.split(jax.random.key(0), 50_000))
    share, exact = float(jnp.mean(jnp.abs(points[:, 0]) <= 0.1)), float(slab_probability(30, 0.1))
    assert abs(share - exact) < 6 * np.sqrt(exact / 50_000)


def test_stuck_probability_bound():
    d = np.arange(1, 2001)
    bound = stuck_probability_bound(d, 0.01, 1.0)
    expected = 0.01 / np.sqrt(np.pi) * np.exp(special.gammaln(d / 2 + 1) - special.gammaln(d / 2 + 0.5))
    np.testing.assert_allclose(bound.volumes, expected, rtol=1e-10)
    ratio = bound.volumes / bound.root
    assert ratio[0] == pytest.approx(np.sqrt(np.pi) / 2)
    assert ratio[-1] == pytest.approx(0.7072, abs=1e-4)
    # the central slab of the same width is below
    for dim in (2, 30, 300):
        assert slab_probability(dim, 0.005) <= stuck_probability_bound(dim, 0.01, 1.0).volumes * (1 + 1e-12)


def test_escape_times_by_a_plain_loop():
    starts = np.array([[1e-3, 0.2], [0.0, 0.5], [0.3, 0.0], [1e-8, 0.0]])
    times = np.asarray(escape_times(_saddle, starts, 1.0, steps=50, reach=0.4))
    for start, time in zip(starts, times, strict=True):
        x, expected = start.copy(), 51
        for t in range(1, 51):
            x = x - np.array([-0.2 * x[0], x[1]])
            if np.linalg.norm(x - start) > 0.4:
                expected = t
                break
        assert time == expected
    assert times[3] == 51
    falling = escape_times(lambda x: -jnp.sum(x**4), np.array([[1.0]]), 1.0, steps=200, reach=0.1)
    assert int(falling[0]) == 1  # and no overflow afterwards


def test_stuck_region_of_a_quadratic():
    region = stuck_region(_saddle, np.zeros(2), np.eye(2), 0.1, 0.5, steps=20, reach=0.2, resolution=81)
    # along the first axis |x| ((1 + eta gamma)^20 - 1) <= reach, up to what the second adds
    half = 0.2 / (1.1**20 - 1)
    cell = float(region.offsets[1] - region.offsets[0])
    assert 2 * half - 2 * cell <= float(region.width) <= 2 * half + 2 * cell
    assert region.times.shape == (81, 81)
    assert not (region.stuck & ~region.inside).any()
    # the axes may be any: rotated, the same picture
    turn = np.array([[np.cos(0.7), np.sin(0.7)], [-np.sin(0.7), np.cos(0.7)]])
    turned = stuck_region(lambda x: _saddle(turn @ x), np.zeros(2), turn, 0.1, 0.5, steps=20, reach=0.2, resolution=81)
    assert (turned.times != region.times).mean() < 0.01  # up to rounding at the edges
    none = stuck_region(_saddle, np.zeros(2), np.eye(2), 0.1, 0.5, steps=20, reach=1e-9, resolution=4)
    assert none.width == 0


def test_coupled_runs_and_their_decomposition():
    rng = np.random.default_rng(0)
    tensor = rng.normal(size=(3, 3, 3))

    def f(x):  # a cubic: the Hessian is linear
        return -0.3 * x[0] ** 2 + 0.2 * x[1] ** 2 + 0.05 * jnp.einsum("ijk,i,j,k", tensor, x, x, x)

    a, b = 0.1 * rng.normal(size=(2, 3))
    pair = coupled_descent(f, a, b, 0.3, steps=25)
    gradient, hessian = jax.jit(jax.grad(f)), jax.jit(jax.hessian(f))
    x = a
    for t in range(25):
        np.testing.assert_allclose(pair.first[t], x, rtol=1e-12)
        x = x - 0.3 * np.asarray(gradient(x))
    parts = difference_decomposition(f, np.full(3, 0.05), pair, 0.3, nodes=1)
    np.testing.assert_allclose(parts.quadratic - parts.error, pair.difference, rtol=1e-11, atol=1e-14)
    assert np.abs(parts.error).max() > 1e-3  # not a quadratic
    step = np.eye(3) - 0.3 * np.asarray(hessian(np.full(3, 0.05)))
    expected = np.linalg.matrix_power(step, 7) @ (a - b)
    np.testing.assert_allclose(parts.quadratic[7], expected, rtol=1e-11)
    middle = (pair.first[4] + pair.second[4]) / 2
    change = np.asarray(hessian(middle)) - np.asarray(hessian(np.full(3, 0.05)))
    np.testing.assert_allclose(parts.curvature_change[4], np.linalg.norm(change, 2), rtol=1e-10)


def test_separation_time():
    pair = coupled_descent(_saddle, np.array([1e-6, 0.0]), np.zeros(2), 0.5, steps=200)
    apart = np.abs(pair.difference[:, 0])
    first = np.flatnonzero(apart >= 2 * 0.01)[0]
    assert first == np.ceil(separation_time(0.2, 0.5, 2e-6, 0.01))


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: slab_probability(2, -0.1), "half_width must be zero or more"),
        (lambda: stuck_probability_bound(0, 1.0, 1.0), "dim must be at least 1"),
        (lambda: stuck_probability_bound(2, -1.0, 1.0), "omega must be zero or more"),
        (lambda: stuck_probability_bound(2, 1.0, 0.0), "r must be positive"),
        (lambda: escape_times(1, [[0.0]], 1.0, steps=1, reach=1.0), "f must be a function of a point"),
        (lambda: escape_times(_saddle, [0.0, 0.0], 1.0, steps=1, reach=1.0), "starts must have shape"),
        (lambda: escape_times(_saddle, [[0.0, 0.0]], 1.0, steps=0, reach=1.0), "steps must be at least 1"),
        (lambda: escape_times(_saddle, [[0.0, 0.0]], 1.0, steps=1, reach=0.0), "reach must be positive"),
        (lambda: stuck_region(_saddle, [0.0, 0.0], np.eye(3), 1.0, 1.0, steps=1, reach=1.0), "axes must have shape"),
        (lambda: stuck_region(_saddle, [0.0, 0.0], np.eye(2), 0.0, 1.0, steps=1, reach=1.0), "radius must be positive"),
        (
            lambda: stuck_region(_saddle, [0.0, 0.0], np.eye(2), 1.0, 1.0, steps=1, reach=1.0, resolution=1),
            "resolution must be at least 2",
        ),
        (lambda: coupled_descent(_saddle, [0.0, 0.0], [0.0], 1.0, steps=1), "second must have shape"),
        (lambda: coupled_descent(_saddle, [0.0, 0.0], [0.0, 1.0], 0.0, steps=1), "step must be positive"),
        (lambda: separation_time(0.0, 1.0, 1.0, 1.0), "gamma must be positive"),
        (lambda: difference_decomposition(_saddle, [0.0, 0.0], (1, 2), 1.0), "pair must come from coupled_descent"),
    ],
)
def test_sentences(call, sentence):
    with pytest.raises((TypeError, ValueError), match=sentence):
        call()
