"""Hopfield networks against brute force in NumPy, one unit after the other."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.memory import (
    asynchronous_path,
    certain_radius,
    effective_field,
    energy_update,
    field_update,
    hebbian,
    hopfield_energy,
    is_metastable,
    pseudo_inverse,
    settle,
    synchronous_path,
    unstable_units,
)


def network(seed=0, n=9):
    rng = np.random.default_rng(seed)
    half = np.triu(rng.integers(-3, 4, (n, n)), 1).astype(float)
    return half + half.T, rng.integers(-2, 3, n).astype(float), rng.choice([-1.0, 1.0], n)


def slow_sweep(w, b, x, order):
    x = x.copy()
    for i in order:
        x[i] = 1.0 if sum(w[i, j] * x[j] for j in range(len(x))) - b[i] >= 0 else -1.0
    return x


def test_energy_is_the_double_sum():
    w, b, x = network()
    n = len(x)
    slow = -0.5 * sum(w[i, j] * x[i] * x[j] for i in range(n) for j in range(n)) + sum(b * x)
    assert hopfield_energy(w, b, x) == slow


def test_paths_follow_the_sequential_rule():
    w, b, x = network(1)
    order = np.random.default_rng(2).integers(0, 9, 40)
    path = np.asarray(asynchronous_path(w, b, x, order))
    assert path.shape == (41, 9)
    for k in (1, 7, 40):
        np.testing.assert_array_equal(path[k], slow_sweep(w, b, x, order[:k]))


def test_updates_change_one_unit_only():
    w, b, x = network(3)
    for i in range(9):
        new = np.asarray(field_update(w, b, x, i))
        np.testing.assert_array_equal(np.delete(new, i), np.delete(x, i))
        np.testing.assert_array_equal(new, energy_update(w, b, x, i))


@pytest.mark.parametrize("key", [None, 5])
def test_settle_ends_where_nothing_moves(key):
    w, b, x = network(4)
    end = settle(w, b, x, key=None if key is None else jax.random.key(key))
    assert end.at_rest
    assert is_metastable(w, b, end.state)
    assert not unstable_units(w, b, end.state).any()
    if key is None:
        slow = x
        for _ in range(int(end.sweeps)):
            slow = slow_sweep(w, b, slow, range(9))
        np.testing.assert_array_equal(end.state, slow)


def test_settle_gives_up_after_max_sweeps():
    turn = np.array([[0.0, 1.0], [-1.0, 0.0]])
    end = settle(turn, 0.0, np.ones(2), max_sweeps=7)
    assert not end.at_rest
    assert end.sweeps == 7


def test_synchronous_states_move_together():
    w, b, x = network(5)
    path = np.asarray(synchronous_path(w, b, x, 3))
    np.testing.assert_array_equal(path[1], np.where(w @ x - b >= 0, 1, -1))
    np.testing.assert_array_equal(path[2], np.where(w @ path[1] - b >= 0, 1, -1))


def test_a_common_threshold_may_be_one_number():
    w, _, x = network(6)
    np.testing.assert_array_equal(effective_field(w, 2.0, x), w @ x - 2)


def test_hebbian_is_the_sum_of_outer_products():
    rng = np.random.default_rng(0)
    x = rng.choice([-1.0, 1.0], (4, 8))
    full = sum(np.outer(row, row) for row in x) / 8
    np.testing.assert_allclose(hebbian(x, zero_diagonal=False), full)
    np.testing.assert_allclose(hebbian(x), full - np.diag(np.diag(full)))


def test_pseudo_inverse_is_the_projection():
    rng = np.random.default_rng(1)
    x = rng.choice([-1.0, 1.0], (5, 16))
    projection = x.T @ np.linalg.pinv(x.T)
    np.testing.assert_allclose(pseudo_inverse(x, zero_diagonal=False), projection, atol=1e-12)
    # a repeated pattern spans nothing new
    np.testing.assert_allclose(pseudo_inverse(np.vstack([x, x[:1]]), zero_diagonal=False), projection, atol=1e-12)
    assert all(is_metastable(pseudo_inverse(x), 0.0, row) for row in x)


def test_certain_radius_holds_for_every_set_of_wrong_units():
    from itertools import combinations

    rng = np.random.default_rng(3)
    x = rng.choice([-1.0, 1.0], (2, 14))
    w = np.asarray(pseudo_inverse(x))
    d = int(certain_radius(w, x[0]))
    assert d >= 1
    for wrong in combinations(range(14), d):
        start = x[0].copy()
        start[list(wrong)] *= -1
        np.testing.assert_array_equal(settle(w, 0.0, start).state, x[0])


def test_certain_radius_of_an_unstable_state_is_negative():
    assert certain_radius(np.array([[0.0, -1.0], [-1.0, 0.0]]), np.ones(2)) == -1


def test_vmap_and_jit():
    w, b, _ = network(7)
    starts = np.random.default_rng(0).choice([-1.0, 1.0], (6, 9))
    together = jax.jit(jax.vmap(lambda x: settle(w, b, x).state))(jnp.asarray(starts))
    for x, end in zip(starts, together, strict=True):
        np.testing.assert_array_equal(settle(w, b, x).state, end)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda w, b, x: hopfield_energy(w, b, 0.5 * x), r"x must hold \+1 and -1 only, got 0.5"),
        (lambda w, b, x: hopfield_energy(w[:3], b, x), r"weights must have shape \(n, n\) with n = 3, got \(3, 9\)"),
        (lambda w, b, x: hopfield_energy(w, b[:4], x), r"biases must have shape \(n,\) with n = 9, got \(4,\)"),
        (lambda w, b, x: asynchronous_path(w, b, x, [9]), "order must hold labels from 0 to 8, got 9"),
        (lambda w, b, x: settle(w, b, x, max_sweeps=0), "max_sweeps must be at least 1, got 0"),
        (lambda w, b, x: hebbian(np.zeros((2, 3))), r"patterns must hold \+1 and -1 only, got 0.0"),
        (lambda w, b, x: hopfield_energy(np.nan * w, b, x), "weights must be finite, got nan"),
    ],
)
def test_bad_input_gets_a_sentence(call, sentence):
    w, b, x = network()
    x = np.ones(9)
    with pytest.raises(ValueError, match=sentence):
        call(w, b, x)
