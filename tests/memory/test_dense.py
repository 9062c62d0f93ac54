"""Dense memories against energies computed the long way, and the continuous network against its own formula."""

import jax
import numpy as np
import pytest
from scipy import special

from corollary.memory import (
    dense_capacity,
    dense_energy,
    dense_field,
    dense_half_load,
    dense_recall,
    modern_energy,
    modern_path,
    modern_step,
    stable_loads,
)


def memory(seed=0, s=6, n=9):
    rng = np.random.default_rng(seed)
    return rng.choice([-1.0, 1.0], (s, n)), rng.choice([-1.0, 1.0], n)


def slow_energy(patterns, x, degree):
    overlaps = [sum(row * x) for row in patterns]
    return -sum(np.exp(z) if degree is None else z**degree for z in overlaps)


@pytest.mark.parametrize("degree", [2, 3, 5, None])
def test_energy_and_field(degree):
    patterns, x = memory()
    assert dense_energy(patterns, x, degree) == pytest.approx(slow_energy(patterns, x, degree))
    unit = np.exp(9) if degree is None else 9.0**degree
    for i, field in enumerate(dense_field(patterns, x, degree)):
        up, down = x.copy(), x.copy()
        up[i], down[i] = 1, -1
        gain = slow_energy(patterns, down, degree) - slow_energy(patterns, up, degree)
        assert field == pytest.approx(gain / unit, abs=1e-12)


@pytest.mark.parametrize("degree", [2, 3, None])
@pytest.mark.parametrize("key", [None, 1])
def test_recall_ends_in_a_local_minimum(degree, key):
    patterns, x = memory(3)
    end = dense_recall(patterns, x, degree, key=None if key is None else jax.random.key(key))
    assert end.at_rest
    state = np.asarray(end.state)
    for i in range(9):
        flipped = state.copy()
        flipped[i] *= -1
        assert slow_energy(patterns, flipped, degree) >= slow_energy(patterns, state, degree) - 1e-9


def test_stable_loads_are_those_of_each_prefix():
    patterns, _ = memory(5, s=40, n=11)
    x = patterns[0]
    for degree in (2, 3, None):
        loads = np.asarray(stable_loads(patterns, degree))
        for s in (1, 5, 17, 40):
            field = np.asarray(dense_field(patterns[:s], x, degree))
            margins = np.where(np.abs(field) < 1e-13, 0, field)
            assert loads[s - 1] == (np.where(margins >= 0, 1, -1) == x).all()


def test_units_of_zero_are_not_there():
    patterns, _ = memory(6, s=30, n=10)
    padded = np.concatenate([patterns, np.zeros((30, 4))], axis=1)
    np.testing.assert_array_equal(stable_loads(patterns, 3), stable_loads(padded, 3))


def test_capacity_formula():
    assert dense_capacity(60, 3) == pytest.approx(60**2 / (6 * np.log(60)))
    assert dense_capacity(60, 4) == pytest.approx(60**3 / (30 * np.log(60)))


def test_half_load_grows_like_the_capacity():
    ratio = [float(dense_half_load(n, 3) / dense_capacity(float(n), 3)) for n in (100, 1000, 4000)]
    assert 1 < ratio[2] < ratio[1] < ratio[0] < 2


def test_modern_network():
    rng = np.random.default_rng(0)
    patterns, xi, beta = rng.normal(size=(7, 4)), rng.normal(size=4), 1.7
    weights = special.softmax(beta * patterns @ xi)
    np.testing.assert_allclose(modern_step(patterns, xi, beta), weights @ patterns)
    energy = -special.logsumexp(beta * patterns @ xi) / beta + 0.5 * xi @ xi
    assert modern_energy(patterns, xi, beta) == pytest.approx(energy)
    # the step is where the gradient of the energy vanishes, relative to the point: grad E = ξ - step
    np.testing.assert_allclose(
        jax.grad(lambda q: modern_energy(patterns, q, beta))(xi), xi - modern_step(patterns, xi, beta), atol=1e-12
    )
    path = modern_path(patterns, xi, beta, 5)
    assert path.shape == (6, 4)
    np.testing.assert_allclose(path[2], modern_step(patterns, path[1], beta))


@pytest.mark.parametrize(
    ("call", "error", "sentence"),
    [
        (lambda p, x: dense_energy(p, x, 1), ValueError, "degree must be at least 2, got 1"),
        (lambda p, x: dense_energy(p, x, 2.5), TypeError, "degree must be an integer, got 2.5"),
        (lambda p, x: dense_energy(p, x[:3]), ValueError, r"x must have shape \(n,\) with n = 9"),
        (lambda p, x: dense_recall(p, 0 * x), ValueError, r"start must hold \+1 and -1 only"),
        (lambda p, x: modern_step(p, x, -1.0), ValueError, "beta must be positive, got -1"),
        (lambda p, x: modern_path(p, x[:2], 1.0, 3), ValueError, r"start must have shape \(d,\) with d = 9"),
    ],
)
def test_bad_input_gets_a_sentence(call, error, sentence):
    with pytest.raises(error, match=sentence):
        call(*memory())
