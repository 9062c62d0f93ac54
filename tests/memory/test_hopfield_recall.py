"""Hopfield networks with Hebbian weights at real size: the dynamics in terms of the patterns."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.memory import (
    crosstalk,
    fit_transition,
    flip_probability,
    flip_probability_limit,
    hebbian,
    pattern_capacity,
    random_signs,
    recall,
    retrieval_overlaps,
    settle,
    stability,
)

compiled = jax.jit(recall, static_argnames=("block", "zero_diagonal"))
one_by_one = jax.jit(jax.vmap(lambda weights, x: settle(weights, 0.0, x), in_axes=(None, 0)))


@pytest.mark.parametrize("zero", [True, False])
@pytest.mark.parametrize("block", [1, 7, 64, 500])
def test_recall_is_the_sequential_dynamics(zero, block):
    n, s = 101, 40
    patterns, starts = random_signs((s, n), key=jax.random.key(0)), random_signs((6, n), key=jax.random.key(1))
    weights = patterns.T @ patterns - zero * s * jnp.eye(n)  # whole numbers: ties are ties
    run = compiled(patterns.astype(jnp.float32), starts.astype(jnp.float32), block=block, zero_diagonal=zero)
    assert run.at_rest
    slow = one_by_one(weights, starts)
    np.testing.assert_array_equal(run.states, slow.state)
    assert run.sweeps == slow.sweeps.max()


def test_recall_in_another_order():
    n = 60
    patterns, starts = random_signs((25, n), key=jax.random.key(2)), random_signs((4, n), key=jax.random.key(3))
    order = jax.random.permutation(jax.random.key(4), n)
    weights = patterns.T @ patterns - 25 * jnp.eye(n)
    shuffled = weights[order][:, order]
    slow = jax.jit(jax.vmap(lambda x: settle(shuffled, 0.0, x[order]).state))(starts)
    np.testing.assert_array_equal(recall(patterns, starts, order=order).states[:, order], slow)


def test_rows_of_zeros_store_nothing():
    patterns = random_signs((12, 50), key=jax.random.key(5))
    padded = jnp.concatenate([patterns, jnp.zeros((7, 50))])
    starts = random_signs((3, 50), key=jax.random.key(6))
    np.testing.assert_array_equal(recall(patterns, starts).states, recall(padded, starts).states)


def test_retrieval_overlaps_have_the_shape_and_range():
    m = retrieval_overlaps(64, [4, 30], key=jax.random.key(0), sets=5, starts=4)
    assert m.shape == (2, 5, 4)
    assert (jnp.abs(m) <= 1).all()
    assert m[0].mean() > 0.95 > 0.8 > m[1].mean()
    batched = retrieval_overlaps(64, [4, 30], key=jax.random.key(0), sets=5, starts=4, at_once=3)
    np.testing.assert_allclose(m, batched)


def test_random_signs_are_fair_and_of_any_shape():
    x = random_signs((50, 37, 101), key=jax.random.key(0))
    assert set(np.unique(x)) == {-1.0, 1.0}
    assert abs(float(x.mean())) < 5 / x.size**0.5
    assert random_signs(5, key=jax.random.key(0)).shape == (5,)


@pytest.mark.parametrize("zero", [True, False])
def test_crosstalk_is_what_the_other_patterns_add(zero):
    x = np.asarray(random_signs((6, 20), key=jax.random.key(0)))
    weights = np.asarray(hebbian(x, zero_diagonal=zero))
    own = (19 / 20 if zero else 1.0) * x
    np.testing.assert_allclose(crosstalk(x, zero_diagonal=zero), x @ weights - own, atol=1e-14)
    np.testing.assert_allclose(stability(x, zero_diagonal=zero), 20 * x * (x @ weights), atol=1e-12)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: recall(np.ones((2, 3)), np.ones((1, 4))), r"states must have shape \(k, n\) with n = 3, got \(1, 4\)"),
        (lambda: recall(np.ones((2, 3)), np.zeros((1, 3))), r"states must hold \+1 and -1 only"),
        (lambda: recall(np.ones((2, 3)), np.ones((1, 3)), order=[0, 1]), r"order must have shape \(n,\) with n = 3"),
        (
            lambda: retrieval_overlaps(8, [2], key=jax.random.key(0), sets=1, starts=3),
            "sizes must be at least 3, got 2",
        ),
        (lambda: flip_probability(1, 2), "n must be at least 2, got 1"),
        (lambda: flip_probability_limit(0.0), "load must be positive, got 0"),
        (lambda: pattern_capacity(10, base=1.0), "base must be greater than 1, got 1"),
        (lambda: fit_transition([1.0], [0.1], [1.0], [1.0, 2.0]), r"trials must have shape \(m,\) with m = 1"),
    ],
)
def test_bad_input_gets_a_sentence(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()
