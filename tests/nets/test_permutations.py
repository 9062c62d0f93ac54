import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.nets.permutations import (
    all_permutations,
    equivariance_defect,
    generators,
    invariance_defect,
    permutation_matrix,
    random_permutations,
)

X = np.random.default_rng(0).normal(size=(5, 2))


def test_permutation_matrix():
    order = np.array([2, 0, 3, 1, 4])
    matrix = np.asarray(permutation_matrix(order))
    np.testing.assert_array_equal(matrix @ X, X[order])
    np.testing.assert_array_equal(matrix.T @ matrix, np.eye(5))
    np.testing.assert_array_equal(matrix @ matrix, permutation_matrix(order[order]))
    np.testing.assert_array_equal(permutation_matrix([order, order[order]])[1], matrix @ matrix)


def test_one_permutation_and_several_outputs():
    order, shift = np.array([2, 0, 3, 1, 4]), np.arange(5.0)[:, None]
    np.testing.assert_allclose(invariance_defect(jnp.asarray, X, order), np.linalg.norm(X[order] - X))
    far = equivariance_defect(lambda x: x + shift, X, order)
    np.testing.assert_allclose(far, np.sqrt(2) * np.linalg.norm(shift - shift[order]))  # of both coordinates
    assert equivariance_defect(lambda x: (x, {"of several the farthest": x + shift}), X, order) == far


def test_invariance_defect_of_known_functions():
    every = all_permutations(5)
    for f in (lambda x: x.sum(0), lambda x: x.max(0), lambda x: x.mean(), lambda x: jnp.sort(x, axis=0)):
        assert invariance_defect(f, X, every) < 1e-14
    # the first row becomes any other: the largest distance between two rows
    brute = max(np.linalg.norm(X[i] - X[0]) for i in range(5))
    np.testing.assert_allclose(invariance_defect(lambda x: x[0], X, every), brute)


def test_equivariance_defect_of_known_functions():
    every = all_permutations(5)
    assert equivariance_defect(lambda x: jnp.tanh(x) + x.sum(0), X, every) < 1e-14
    # numbering the rows is not equivariant: row i gets i instead of its new place
    brute = max(np.linalg.norm(np.argsort(p) - np.arange(5)) for p in np.asarray(every))
    np.testing.assert_allclose(equivariance_defect(lambda x: jnp.arange(5.0), X, every), brute)


def test_generators_generate_everything():
    found, new = {tuple(range(4))}, {tuple(range(4))}
    rows = np.asarray(generators(4)).tolist()
    while new:
        new = {tuple(p[i] for i in g) for p in new for g in rows} - found
        found |= new
    assert found == set(map(tuple, np.asarray(all_permutations(4)).tolist()))
    assert len(found) == 24


def test_random_permutations():
    drawn = np.asarray(random_permutations(6, 50, key=jax.random.key(0)))
    assert drawn.shape == (50, 6)
    np.testing.assert_array_equal(np.sort(drawn, 1), np.tile(np.arange(6), (50, 1)))
    assert len(np.unique(drawn, axis=0)) > 40


def test_bad_input():
    with pytest.raises(ValueError, match="each of 0 to 2 once in every row"):
        permutation_matrix([0, 0, 1])
    with pytest.raises(ValueError, match="labels from 0 to 2, got 3"):
        permutation_matrix([0, 3, 1])
    with pytest.raises(ValueError, match=r"permutations must have shape \(p, 1\), got \(\)"):
        permutation_matrix(0)
    with pytest.raises(ValueError, match=r"permutations must have shape \(5,\), got \(2,\)"):
        equivariance_defect(jnp.tanh, X, [1, 0])
    with pytest.raises(TypeError, match="f must be a function of a set, got 3"):
        invariance_defect(3, X, [0, 1, 2, 3, 4])
    with pytest.raises(ValueError, match="each of 0 to 4 once in every row"):
        invariance_defect(jnp.sum, X, [[0, 0, 1, 2, 3]])
    with pytest.raises(ValueError, match="labels from 0 to 4"):
        invariance_defect(jnp.sum, X, [[0, 1, 2, 3, 5]])
    with pytest.raises(ValueError, match=r"permutations must have shape \(p, 5\)"):
        equivariance_defect(jnp.tanh, X, [[0, 1]])
    with pytest.raises(ValueError, match="one output for each of the 5 rows"):
        equivariance_defect(jnp.sum, X, all_permutations(5))
    with pytest.raises(ValueError, match="got a number"):
        invariance_defect(jnp.sum, 1.0, [[0]])
    with pytest.raises(ValueError, match="size must be at least 2"):
        generators(1)
    with pytest.raises(ValueError, match="size must be from 1 to 8"):
        all_permutations(9)
