"""The named losses of one example, against Optax, SciPy and closed forms."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from sklearn.metrics import log_loss

from corollary.network.losses import (
    LOSSES,
    absolute,
    binary_cross_entropy,
    cross_entropy,
    hinge,
    huber,
    logistic,
    require_targets,
    squared,
)

RNG = np.random.default_rng(0)
F, Y = RNG.normal(size=(2, 20, 3))
CLASSES = RNG.integers(0, 3, 20)
SHARES = np.exp(Y) / np.exp(Y).sum(1, keepdims=True)
SIGNS = np.where(Y[:, 0] > 0, 1.0, -1.0)


def test_losses_of_differences_against_optax():
    np.testing.assert_allclose(jax.vmap(squared)(F, Y), optax.l2_loss(F, Y).sum(1), rtol=1e-12)
    np.testing.assert_allclose(jax.vmap(absolute)(F, Y), np.abs(F - Y).sum(1), rtol=1e-12)
    np.testing.assert_allclose(jax.vmap(huber)(3 * F, Y), optax.huber_loss(3 * F, Y).sum(1), rtol=1e-12)
    np.testing.assert_allclose(jax.grad(squared)(F[0], Y[0]), F[0] - Y[0], rtol=1e-12)
    assert squared(jnp.array([3.0]), 1.0) == 2.0  # one output, and its target as a number
    assert squared(3.0, jnp.array([1.0])) == 2.0


def test_cross_entropy_of_classes_and_of_probabilities():
    by_class = optax.softmax_cross_entropy_with_integer_labels(F, CLASSES)
    np.testing.assert_allclose(jax.vmap(cross_entropy)(F, CLASSES), by_class, rtol=1e-12)
    np.testing.assert_allclose(jax.vmap(cross_entropy)(F, SHARES), optax.softmax_cross_entropy(F, SHARES), rtol=1e-12)
    p = np.exp(F) / np.exp(F).sum(1, keepdims=True)
    np.testing.assert_allclose(np.mean(jax.vmap(cross_entropy)(F, CLASSES)), log_loss(CLASSES, p, labels=[0, 1, 2]))
    np.testing.assert_allclose(jax.grad(cross_entropy)(F[0], 1), p[0] - [0, 1, 0], rtol=1e-10)
    assert cross_entropy(jnp.array([1e3, -1e3, 0.0]), 1) == 2000
    assert cross_entropy(jnp.array([0.0, -jnp.inf]), 0) == 0
    np.testing.assert_allclose(cross_entropy(F[0, :2], True), cross_entropy(F[0, :2], 1))


def test_cross_entropy_of_a_single_logit():
    y = (Y[:, 0] > 0).astype(int)
    expected = optax.sigmoid_binary_cross_entropy(F[:, 0], y)
    np.testing.assert_allclose(jax.vmap(cross_entropy)(F[:, 0], y), expected, rtol=1e-12)
    np.testing.assert_allclose(jax.vmap(cross_entropy)(F[:, :1], y.astype(float)), expected, rtol=1e-12)
    np.testing.assert_allclose(jax.grad(cross_entropy)(0.3, 0.25), jax.nn.sigmoid(0.3) - 0.25, rtol=1e-12)
    assert cross_entropy(1e4, 0) == cross_entropy(-1e4, 1) == 1e4
    assert cross_entropy(800.0, 1) == 0


def test_cross_entropy_at_many_places_is_their_mean():
    logits, classes = RNG.normal(size=(4, 5, 3)), RNG.integers(0, 3, (4, 5))
    expected = optax.softmax_cross_entropy_with_integer_labels(logits, classes)
    np.testing.assert_allclose(cross_entropy(logits, classes), expected.mean(), rtol=1e-12)


def test_places_that_do_not_count_and_classes_first_as_in_pytorch():
    torch = pytest.importorskip("torch")
    logits, classes = RNG.normal(size=(6, 5, 3)), RNG.integers(0, 3, (6, 5))
    classes[2, 1:] = classes[4, 3] = -100
    expected = torch.nn.functional.cross_entropy(torch.tensor(logits).reshape(-1, 3), torch.tensor(classes).reshape(-1))
    np.testing.assert_allclose(cross_entropy(logits, classes), float(expected), rtol=1e-12)
    np.testing.assert_allclose(jax.jit(cross_entropy)(logits, classes), float(expected), rtol=1e-12)
    first = RNG.normal(size=(3, 6, 5))
    expected = torch.nn.functional.cross_entropy(torch.tensor(first)[None], torch.tensor(classes)[None])
    np.testing.assert_allclose(cross_entropy(first, classes), float(expected), rtol=1e-12)
    assert cross_entropy(logits, np.full((6, 5), -100)) == 0
    assert np.isfinite(jax.grad(cross_entropy)(logits, np.full((6, 5), -100))).all()
    with pytest.raises(ValueError, match="target must hold labels from 0 to 2, got -100"):
        cross_entropy(logits[0, 0], -100)
    with pytest.raises(ValueError, match="target must hold labels from 0 to 2, got -1 at index"):
        cross_entropy(logits, np.full((6, 5), -1))


def test_binary_cross_entropy_is_the_mean_over_the_outputs():
    torch = pytest.importorskip("torch")
    for y in ((Y > 0).astype(float), SHARES):
        expected = torch.nn.functional.binary_cross_entropy_with_logits(torch.tensor(F), torch.tensor(y))
        np.testing.assert_allclose(binary_cross_entropy(F, y), float(expected), rtol=1e-12)
    np.testing.assert_allclose(binary_cross_entropy(F[None], Y > 0), binary_cross_entropy(F, Y > 0), rtol=1e-12)
    assert binary_cross_entropy(np.array([1e4, -1e4]), np.array([0, 1])) == 1e4


def test_losses_of_margins():
    np.testing.assert_allclose(jax.vmap(logistic)(F[:, 0], SIGNS), np.log1p(np.exp(-SIGNS * F[:, 0])), rtol=1e-10)
    np.testing.assert_allclose(jax.vmap(hinge)(F[:, :1], SIGNS), optax.hinge_loss(F[:, 0], SIGNS), rtol=1e-12)
    assert logistic(-1e4, 1.0) == 1e4


def test_a_loss_works_under_jit_by_its_name():
    for name, loss in LOSSES.items():
        output, target = (F[0], 1) if name == "cross_entropy" else (F[0, :1], 1.0)
        np.testing.assert_allclose(jax.jit(loss)(output, target), loss(output, target), rtol=1e-12)


def test_targets_are_looked_at_before_training():
    output = jax.ShapeDtypeStruct((3,), np.float32)
    require_targets(cross_entropy, output, jnp.asarray(CLASSES))
    require_targets(cross_entropy, output, jnp.asarray(SHARES))
    require_targets(squared, output, jnp.array([7]))
    with pytest.raises(ValueError, match="targets must hold labels from 0 to 2, got 3 at index 1"):
        require_targets(cross_entropy, output, jnp.array([2, 3]))


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: squared(F, Y[0]), r"the target must have the shape of the output, \(20, 3\), got \(3,\)"),
        (lambda: absolute(F[0], F[0, :2]), r"the target must have the shape of the output, \(3,\), got \(2,\)"),
        (lambda: cross_entropy(F[0], 3), "target must hold labels from 0 to 2, got 3"),
        (lambda: cross_entropy(F[0], 1.0), r"a class or a probability vector for logits of shape \(3,\), got a target"),
        (lambda: cross_entropy(F[0], np.ones(3)), "the probabilities in a target must sum to 1, got 3.0"),
        (lambda: cross_entropy(F[0], np.array([2.0, -1, 0])), r"target must be in \[0, 1\]"),
        (lambda: cross_entropy(0.3, 2.0), r"target must be in \[0, 1\], got 2.0"),
        (lambda: binary_cross_entropy(F, Y.T > 0), r"the shape of the output, \(20, 3\), got \(3, 20\)"),
        (lambda: binary_cross_entropy(F, Y), r"target must be in \[0, 1\]"),
        (lambda: logistic(F[0], 1.0), "logistic takes one output and one label"),
        (lambda: hinge(F[0, 0], np.ones(2)), r"hinge takes one output and one label, got shapes \(\) and \(2,\)"),
    ],
)
def test_bad_input(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()
