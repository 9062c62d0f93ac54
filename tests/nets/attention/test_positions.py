import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.nets.attention import LearnedPositions, random_positions, shift_rotation, sinusoidal_positions

KEY = jax.random.key(0)
X = np.random.default_rng(0).normal(size=(4, 3))


def test_sinusoidal():
    found = np.asarray(sinusoidal_positions(50, 6, base=100.0))
    for t in (0, 7, 49):
        for i in range(3):
            angle = t / 100 ** (2 * i / 6)
            np.testing.assert_allclose(found[t, 2 * i : 2 * i + 2], [np.sin(angle), np.cos(angle)], atol=1e-14)
    loose = np.asarray(sinusoidal_positions(50, 6, base=100.0, paired=False))
    np.testing.assert_allclose(
        loose[9], [f(9 / 100 ** (k / 6)) for k, f in enumerate([np.sin, np.cos] * 3)], atol=1e-14
    )
    with jax.enable_x64(False):
        far = sinusoidal_positions(10_001, 4)
        assert far.dtype == jnp.float32
        np.testing.assert_allclose(far[-1, 0], np.sin(1e4), atol=1e-7)


def test_rotation():
    p = np.asarray(sinusoidal_positions(30, 8))
    np.testing.assert_allclose(p[5:] @ np.asarray(shift_rotation(-5, 8)).T, p[:-5], atol=1e-13)


def test_learned_and_random():
    model = LearnedPositions(5, 3, key=KEY)
    np.testing.assert_array_equal(model(X), X + np.asarray(model.table)[:4])
    np.testing.assert_array_equal(model(X, 1), X + np.asarray(model.table)[1:])
    np.testing.assert_array_equal(
        jax.jit(lambda x, start: model(x, start))(X, jnp.asarray(1)), X + np.asarray(model.table)[1:]
    )
    assert random_positions(5, 3, key=KEY).shape == (5, 3)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: sinusoidal_positions(4, 5), "size must be even, .* got 5"),
        (lambda: sinusoidal_positions(4, 6, base=0.0), "base must be positive, got 0.0"),
        (lambda: shift_rotation(2.5, 4), "offset must be an integer, got 2.5"),
        (lambda: random_positions(0, 4, key=KEY), "length must be at least 1, got 0"),
        (lambda: LearnedPositions(3, 3, key=KEY)(X), "x must have at most 3 tokens, one for each position, got 4"),
        (lambda: LearnedPositions(5, 3, key=KEY)(X, 2), "start must be from 0 to 1, got 2"),
        (lambda: LearnedPositions(5, 2, key=KEY)(X), r"x must have shape \(T, 2\), got \(4, 3\)"),
    ],
)
def test_bad_input(call, sentence):
    with pytest.raises((TypeError, ValueError), match=sentence):
        call()
