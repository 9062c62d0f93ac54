import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial.distance import cdist

from corollary.generative import _distances, mode_counts, nearest_training, predicted_accuracy

KEY = jax.random.key(0)
X, Y = np.random.default_rng(0).normal(size=(2, 30, 4))


@pytest.mark.parametrize("small", [0, 2**22])
def test_the_nearest_by_brute_force(small, monkeypatch):
    monkeypatch.setattr(_distances, "SMALL", small)
    jax.clear_caches()
    found = nearest_training(X.reshape(30, 2, 2), Y.reshape(30, 2, 2))
    apart = cdist(X, Y)
    np.testing.assert_array_equal(found.index, apart.argmin(1))
    np.testing.assert_allclose(found.distance, apart.min(1), rtol=1e-12)
    np.testing.assert_array_equal(nearest_training(Y[3:5], Y).distance, 0.0)
    jax.clear_caches()


def test_counts_of_modes():
    centres = jnp.array([[0.0], [10.0], [20.0]])
    samples = jnp.array([[1.0], [2.0], [19.0], [-4.0]])
    assert mode_counts(samples, centres).tolist() == [3, 0, 1]
    assert mode_counts(samples, centres, [1, 0, 1]).tolist() == [0, 4]
    with pytest.raises(ValueError, match="labels must hold one label for each of the 3 centres, got 2"):
        mode_counts(samples, centres, [0, 1])


def test_accuracy_on_what_a_generator_makes():
    def sample(size, *, key):
        x = jax.random.normal(key, (size, 2))
        return x, (x[:, 0] > 0).astype(int)

    found = predicted_accuracy(lambda x: jnp.array([0.0, x[0]]), sample, 200, key=KEY)
    assert float(found.value) == 1.0
    assert float(found.interval[0]) > 0.97
    half = predicted_accuracy(lambda x: jnp.array([0.0, x[1]]), sample, 2000, key=KEY)
    assert float(half.interval[0]) < 0.5 < float(half.interval[1])


def test_bad_arguments():
    with pytest.raises(TypeError, match="classifier must be a function, got int"):
        predicted_accuracy(3, lambda size, *, key: None, key=KEY)
    with pytest.raises(ValueError, match=r"must return examples and labels \(x, y\), got int"):
        predicted_accuracy(lambda x: x, lambda size, *, key: 3, key=KEY)
    with pytest.raises(ValueError, match=r"as many labels as examples, got 2 for \(3, 2\)"):
        predicted_accuracy(lambda x: x, lambda size, *, key: (jnp.ones((3, 2)), [0, 1]), key=KEY)
    with pytest.raises(ValueError, match=r"classifier\(x\) must return a score for each class, got shape \(\)"):
        predicted_accuracy(lambda x: x[0], lambda size, *, key: (jnp.ones((2, 2)), [0, 1]), key=KEY)
