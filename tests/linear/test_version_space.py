"""Version spaces: certificates checked against the data in exact arithmetic, arcs against a fine sweep of angles."""

from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.linear import feasible_arc, in_version_space, separability, version_space_share

XOR = np.array([[0.0, 0.0], [1.0, 1.0], [0.0, 1.0], [1.0, 0.0]]), np.array([1.0, 1.0, -1.0, -1.0])


@pytest.fixture(autouse=True)
def _x64():
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize("bias", [True, False])
def test_either_certificate_proves_the_verdict(bias):
    rng = np.random.default_rng(0)
    verdicts = set()
    for _ in range(80):
        x, y = rng.integers(-3, 4, size=(5, 2)).astype(float), rng.choice([-1.0, 1.0], size=5)
        proof = separability(x, y, bias=bias)
        verdicts.add(proof.separable)
        points = np.hstack([x, np.ones((5, 1))]) if bias else x
        if proof.separable:
            theta = [Fraction(v) for v in (*proof.w, proof.b)][: points.shape[1]]
            for point, label in zip(points, y, strict=True):
                assert int(label) * sum(t * Fraction(v) for t, v in zip(theta, point, strict=True)) > 0
            assert bool(in_version_space(proof.w, proof.b, x, y))
        else:
            assert (proof.multipliers >= 0).all()
            np.testing.assert_allclose(proof.multipliers.sum(), 1)
            np.testing.assert_allclose((proof.multipliers * y) @ points, 0, atol=1e-12)
    assert verdicts == {True, False}


def test_xor_has_equal_multipliers():
    proof = separability(*XOR)
    assert not proof.separable
    np.testing.assert_allclose(proof.multipliers, 0.25)


@pytest.mark.parametrize("scale", [1e-100, 1e100])
def test_scale_does_not_matter(scale):
    assert not separability(scale * XOR[0], XOR[1]).separable
    assert separability(scale * XOR[0], [1, -1, -1, -1]).separable


def test_a_single_class_is_separable():
    assert separability([[1.0, 2.0], [-1.0, 0.5]], [1, 1]).separable


def test_a_point_at_the_origin_is_never_classified_without_bias():
    assert not separability([[0.0, 0.0], [1.0, 1.0]], [1, 1], bias=False).separable


def test_many_parameters_at_once():
    w, b = np.array([[1.0, 0.0], [-1.0, 0.0], [1.0, 5.0]]), np.array([0.0, 0.0, 0.0])
    x, y = np.array([[1.0, 0.0], [-2.0, 1.0]]), np.array([1, -1])
    np.testing.assert_array_equal(in_version_space(w, b, x, y), [True, False, False])
    np.testing.assert_array_equal(in_version_space(w, 0.0, x, y), [True, False, False])


@pytest.mark.parametrize("seed", range(5))
def test_arc_against_a_sweep(seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(4, 2))
    y = np.sign(x @ rng.normal(size=2)) if seed else np.array([1.0, 1.0, -1.0, 1.0])
    arc = feasible_arc(x, y)
    angles = np.linspace(-np.pi, np.pi, 20001)
    inside = (y[:, None] * (x @ np.stack([np.cos(angles), np.sin(angles)])) > 0).all(axis=0)
    np.testing.assert_array_equal(arc.contains(angles), inside)
    np.testing.assert_allclose(arc.width, inside.mean() * 2 * np.pi, atol=2e-3)


def test_share_of_half_spaces():
    share = version_space_share([[1.0, 0.0], [0.0, 1.0]], [1, 1], samples=40_000, key=jax.random.key(0), bias=False)
    assert abs(float(share) - 0.25) < 5 * (0.25 * 0.75 / 40_000) ** 0.5


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: separability([[1.0]], [3]), "y must hold the labels -1 and 1, got 3 at index 0."),
        (lambda: jax.jit(lambda x: separability(x, [1.0]))(jnp.ones((1, 1))), "separability runs outside jit: use"),
        (lambda: in_version_space([1.0, 2.0], 0.0, [[1.0]], [1]), "w must have shape (..., d) with d = 1, got (2,)."),
        (lambda: in_version_space([[1.0]], [0.0, 1.0], [[1.0]], [1]), "b must be one number or have shape (1,) like w"),
        (lambda: feasible_arc([[1.0]], [1]), "x must have shape (n, 2), got (1, 1)."),
        (lambda: feasible_arc([[0.0, 0.0]], [1]), "x must not hold the origin: no direction classifies it."),
        (lambda: version_space_share([[1.0]], [1], samples=0, key=jax.random.key(0)), "samples must be at least 1"),
    ],
)
def test_bad_input_gets_one_sentence(call, sentence):
    with pytest.raises((ValueError, TypeError)) as caught:
        call()
    assert str(caught.value).startswith(sentence)
