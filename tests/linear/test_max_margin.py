"""The hardest margin against scikit-learn, closed forms and its own certificate; the nearest point against SciPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.svm import SVC

from corollary.linear import linearly_separable, margin, max_margin, min_norm_point, novikoff_bound, separability


@pytest.fixture(autouse=True)
def _x64():
    with jax.enable_x64(True):
        yield


def _separable(seed, n, d, shift):
    rng = np.random.default_rng(seed)
    x, w = rng.normal(size=(n, d)), rng.normal(size=d)
    return x, np.sign(x @ w + shift)


@pytest.mark.parametrize(("n", "d"), [(10, 2), (60, 3), (80, 10), (100, 25)])
def test_against_a_support_vector_machine(n, d):
    x, y = _separable(n, n, d, 0.3)
    found, machine = max_margin(x, y), SVC(kernel="linear", C=1e9, tol=1e-9).fit(x, y)
    length = np.linalg.norm(machine.coef_)
    # scikit-learn stops at its own tolerance; the certificate below is far sharper
    np.testing.assert_allclose(found.margin, 1 / length, rtol=1e-4)
    np.testing.assert_allclose(found.w, machine.coef_[0] / length, atol=1e-4)
    np.testing.assert_allclose(found.b, machine.intercept_[0] / length, atol=1e-4)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("n", "d"), [(6, 2), (50, 5), (40, 30), (300, 12)])
def test_the_certificate(n, d, bias):
    x, y = _separable(n + 1, n, d, 0.3 * bias)
    x = x + 5 * bias
    y = np.sign((x - 5 * bias) @ np.ones(d) + 0.1 * bias)
    found = max_margin(x, y, bias=bias)
    np.testing.assert_allclose(margin(found.w, found.b, x, y), found.margin, atol=1e-13)
    np.testing.assert_allclose(np.linalg.norm(found.w), 1)
    combination = (found.multipliers * y) @ x
    halves = np.array([found.multipliers[y > 0].sum(), found.multipliers[y < 0].sum()])
    assert (np.asarray(found.multipliers) >= 0).all()
    if bias:
        np.testing.assert_allclose(halves, 1)
        np.testing.assert_allclose(np.linalg.norm(combination) / 2, found.bound, atol=1e-12)
    else:
        np.testing.assert_allclose(halves.sum(), 1)
        np.testing.assert_allclose(np.linalg.norm(combination), found.bound, atol=1e-12)
    assert 0 < found.margin <= found.bound + 1e-14
    np.testing.assert_allclose(found.margin, found.bound, rtol=1e-9)


def test_closed_forms():
    found = max_margin([[1.0, 2.0], [4.0, 6.0]], [1, -1])
    np.testing.assert_allclose([found.margin, found.bound], 2.5)
    found = max_margin(jnp.eye(7), jnp.ones(7), bias=False)
    np.testing.assert_allclose(found.w, np.full(7, 7**-0.5))
    np.testing.assert_allclose(found.margin, 7**-0.5)


@pytest.mark.parametrize("scale", [1e-150, 1.0, 1e150])
def test_scale_does_not_matter(scale):
    x, y = _separable(3, 40, 4, 0.2)
    np.testing.assert_allclose(max_margin(scale * x, y).margin, scale * max_margin(x, y).margin, rtol=1e-9)
    assert bool(linearly_separable(scale * x, y, bias=False)) == separability(x, y, bias=False).separable


def test_what_cannot_be_separated_has_no_margin():
    x = np.array([[0.0, 0.0], [1.0, 1.0], [0.0, 1.0], [1.0, 0.0]])
    for bias in (True, False):
        found = max_margin(x, [1, 1, -1, -1], bias=bias)
        assert float(found.margin) <= 0
        assert float(found.bound) < 1e-15
    assert not bool(linearly_separable(x, [1, 1, -1, -1]))
    assert bool(linearly_separable(x, [1, 1, 1, -1]))


def test_float32_stays_float32():
    x, y = _separable(4, 30, 3, 0.2)
    found = max_margin(x.astype(np.float32), y)
    assert found.w.dtype == jnp.float32
    np.testing.assert_allclose(found.margin, max_margin(x, y).margin, atol=1e-5)


def test_under_jit_a_single_class_is_not_a_number():
    assert np.isnan(float(jax.jit(max_margin)(jnp.eye(2), jnp.ones(2)).margin))


@pytest.mark.parametrize("seed", range(8))
def test_separability_against_linear_programming(seed):
    rng = np.random.default_rng(seed)
    x, y = rng.integers(-2, 3, size=(60, 5, 2)).astype(float), rng.choice([-1.0, 1.0], size=(60, 5))
    for bias in (True, False):
        compiled = jax.jit(jax.vmap(lambda x, y, bias=bias: linearly_separable(x, y, bias=bias)))(x, y)
        np.testing.assert_array_equal(
            compiled, [separability(a, b, bias=bias).separable for a, b in zip(x, y, strict=True)]
        )


def test_novikoff_bound():
    np.testing.assert_allclose(novikoff_bound([[3.0, 4.0], [1.0, 0.0]], 0.5), 100)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: max_margin([[1.0]], [1]), "y must hold both labels: with a bias the margin of a single class has no"),
        (lambda: max_margin([[1.0], [2.0]], [1]), "y must have shape (n,) with n = 2, got (1,)."),
        (lambda: max_margin([[1.0], [2.0]], [1, 0]), "y must hold the labels -1 and 1, got 0 at index 1."),
        (lambda: max_margin([[1.0], [2.0]], [1, -1], steps=0), "steps must be at least 1, got 0."),
        (lambda: linearly_separable([[np.nan]], [1]), "x must be finite, got nan at index (0, 0)."),
        (lambda: novikoff_bound([[1.0]], 0.0), "gamma must be positive: the bound needs separable data, got 0."),
        (lambda: min_norm_point([1.0, 2.0]), "points must have shape (n, d), got (2,)."),
    ],
)
def test_bad_input_gets_one_sentence(call, sentence):
    with pytest.raises((ValueError, TypeError)) as caught:
        call()
    assert str(caught.value).startswith(sentence)
