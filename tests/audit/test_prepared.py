"""Test images that are turned, mirrored, inverted or laid out in another way, and those that only are hard."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from made import made

from corollary.audit.sections import _prepared, generalisation

RNG = np.random.default_rng(0)
SHAPE = (3, 6, 6)
# classes are images that no turn or mirror makes of each other
CLASSES = 24
IMAGES = RNG.random((CLASSES, *SHAPE))
KEY = jax.random.key(0)


def images(n, noise=0.1, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, CLASSES, n)
    return (IMAGES[y] + noise * rng.normal(size=(n, *SHAPE))).astype(np.float32), y


def nearest(params, x):
    """Logits of a network that says which image is nearest."""
    return -10 * jnp.sum((params["images"] - x[..., None, :, :, :]) ** 2, (-1, -2, -3))


TRAIN = images(300)
X, Y = images(120, seed=1)


def subject(x, y=Y, params=IMAGES):
    return made(nearest, {"images": jnp.asarray(params, jnp.float32)}, "cross_entropy", TRAIN, (x, y))


PREPARED = {
    "mirrored": (X[..., ::-1], "mirror left and right in"),
    "upside down": (X[:, :, ::-1], "mirror top and bottom in"),
    "rows for columns": (np.swapaxes(X, 2, 3), "swap rows and columns of"),
    "turned": (np.rot90(X, 1, (2, 3)), "turn by a quarter to the right"),
    "colours reversed": (X[:, ::-1], "put the colours of"),
    "inverted": (TRAIN[0].min() + TRAIN[0].max() - X, "invert"),
    "another layout": (np.moveaxis(X, 1, -1).reshape(X.shape), "lay out anew"),
}


@pytest.mark.parametrize("name", PREPARED)
def test_what_undoes_it_is_found(name):
    x, what = PREPARED[name]
    sick = subject(x.copy())
    found = _prepared.measure(sick)
    assert found.what == what
    finding = _prepared.judge(found)
    assert finding.mark == "problem"
    assert _prepared.said(what) in finding.sentence
    action = _prepared.undo(sick, finding)
    low, high = action.effect.interval
    assert low <= action.apply(sick, key=KEY).error("test") <= high
    assert _prepared.judge(_prepared.measure(action.apply(sick, key=KEY))).mark == "fine"
    assert generalisation.answer([finding]).startswith("Cannot tell: the test inputs are not arranged")


@pytest.mark.parametrize(
    ("x", "y"),
    [(X, Y), images(120, 2.0, 2), (X, RNG.permutation(Y)), (RNG.random(X.shape).astype(np.float32), Y)],
    ids=["healthy", "noise", "labels in another order", "other images"],
)
def test_what_no_arrangement_mends_is_not_accused(x, y):
    assert _prepared.judge(_prepared.measure(subject(x, y))).mark == "fine"


def test_a_network_that_has_learned_nothing_has_no_arrangement():
    turned = subject(PREPARED["mirrored"][0].copy(), params=RNG.random(IMAGES.shape))
    assert _prepared.judge(_prepared.measure(turned)).mark == "fine"


def test_images_in_rows_of_numbers_and_tables():
    def named(*shape):
        return {what for what, _ in _prepared.arrangements(shape)}

    assert "turn by a quarter to the left" in named(36)
    assert not named(10)
    assert named(12, 5) >= {"mirror left and right in", "invert"}
    assert "turn by a quarter to the left" not in named(12, 5)
    assert named(12, 2) == {"reverse", "invert"}
    x = np.arange(36.0).reshape(1, 36)
    for what, f in _prepared.arrangements((36,)):
        if what == "swap rows and columns of":
            np.testing.assert_array_equal(np.asarray(f(x)).reshape(6, 6), x.reshape(6, 6).T)
