"""The data of another class: distances against SciPy's, and the straight way to them against a known boundary."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial.distance import cdist

from corollary import Network
from corollary.robustness import nearest_other_class, straight_attack

RNG = np.random.default_rng(0)


def test_distances_against_all_pairs():
    x, points = RNG.normal(size=(7, 2, 3)) + 50, RNG.normal(size=(40, 2, 3)) + 50
    y, labels = RNG.integers(0, 3, 7), RNG.integers(0, 3, 40)
    found = nearest_other_class((x, y), (points, labels), batch_size=4)
    every = cdist(x.reshape(7, -1), points.reshape(40, -1))
    every[y[:, None] == labels] = np.inf
    np.testing.assert_allclose(found.distance, every.min(1), rtol=1e-9)
    np.testing.assert_array_equal(found.index, every.argmin(1))


def test_where_there_is_no_other_class():
    found = nearest_other_class((np.ones((2, 1)), [0, 1]), (np.zeros((3, 1)), [1, 1, 1]))
    np.testing.assert_array_equal(found.distance, [1.0, np.inf])


@pytest.fixture(scope="module")
def half_space():
    return Network(lambda w, x: jnp.stack([0.0, w @ x - 1.0]), jnp.array([2.0, 0.0]))


def test_the_way_crosses_the_boundary(half_space):
    x, towards = (
        np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.2, 0.0]]),
        np.array([[2.0, 0], [2, 1], [0, 0], [0, 0]]),
    )
    y = np.array([0, 0, 1, 0])
    found = straight_attack(half_space, "cross_entropy", (x, y), towards, halvings=12, batch_size=3)
    # the boundary is at x₁ = 1/2; of the last way both ends have one class
    np.testing.assert_array_equal(found.success, [True, True, True, False])
    np.testing.assert_allclose(found.inputs[:3, 0], [0.5, 0.5, 0.5], atol=2 * 2**-12)
    assert (jnp.argmax(jax.vmap(half_space)(found.inputs[:3]), 1) != y[:3]).all()
    np.testing.assert_array_equal(found.inputs[3], x[3])
    np.testing.assert_allclose(found.distance, np.linalg.norm(found.inputs - x, axis=1))
    assert (found.queries == 14).all()
    # what is wrong as is needs no way at all
    wrong = straight_attack(half_space, "cross_entropy", (x, 1 - y), towards, batch_size=3)
    assert wrong.success.all()
    assert (wrong.distance == 0).all()


DATA = np.ones((2, 3)), np.array([0, 1])


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda n: nearest_other_class(DATA, (np.ones((2, 4)), [0, 1])), "inputs of one size, got 3 and 4"),
        (lambda n: nearest_other_class(((DATA[0], DATA[0]), DATA[1]), DATA), "data must have one array of inputs"),
        (lambda n: nearest_other_class(DATA, (DATA[0], np.ones((2, 2)))), "among must have one array"),
        (
            lambda n: straight_attack(n, "cross_entropy", (np.ones((2, 2)), [0, 1]), np.ones((3, 2))),
            "shape of the inputs",
        ),
        (lambda n: straight_attack(n, "squared", (np.ones((2, 2)), np.ones((2, 2))), np.ones((2, 2))), "have classes"),
    ],
)
def test_one_sentence(half_space, call, sentence):
    with pytest.raises((TypeError, ValueError), match=sentence):
        call(half_space)
