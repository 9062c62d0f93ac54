"""Attacks against what is known exactly (linear models, grids in the plane), and sentences for what cannot be done."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary import Network
from corollary.nets import MLP, relu, tanh
from corollary.network import BatchLoss
from corollary.robustness import Ball, fgsm, pgd

KEY = jax.random.key(0)
W = np.array([0.5, -2.0, 1.0])


@pytest.fixture(scope="module")
def linear():
    with jax.enable_x64(True):
        return Network(lambda w, x: (w @ x)[None], jnp.asarray(W))


@pytest.fixture(scope="module")
def plane():
    """A network with three classes in the plane, and points that it gets right."""
    with jax.enable_x64(True):
        network = MLP(
            (2, 16, 3), tanh, key=jax.random.key(5), initialisation=lambda k, s, d: 2 * jax.random.normal(k, s, d)
        )
        x = jax.random.normal(jax.random.key(1), (7, 2))
        return network, x, jnp.argmax(jax.vmap(network)(x), 1)


@pytest.mark.parametrize("p", [1, 2, np.inf])
@pytest.mark.parametrize("attack", [fgsm, pgd])
def test_linear_models_are_moved_by_the_dual_norm(linear, attack, p):
    x = jax.random.normal(KEY, (5, 3))
    y = jnp.sign(x @ W)
    found = attack(linear, "logistic", (x, y), Ball(p, 0.2), **({"stop": False} if attack is pgd else {}))
    dual = {1: np.inf, 2: 2, np.inf: 1}[p]
    worst = np.abs(x @ W) - 0.2 * np.linalg.norm(W, dual)
    np.testing.assert_allclose(y * (found.inputs @ W), worst, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(found.loss, np.log1p(np.exp(-worst)), rtol=1e-12)
    np.testing.assert_allclose(found.distance, 0.2, rtol=1e-12)
    assert (found.success == (worst <= 0)).all()


@pytest.mark.parametrize("p", [1, 2, np.inf])
def test_the_largest_loss_in_the_plane(plane, p):
    network, x, y = plane
    found = pgd(network, "cross_entropy", (x, y), Ball(p, 0.5), steps=60, restarts=5, stop=False, key=KEY)
    side = np.linspace(-0.5, 0.5, 201)
    grid = np.stack(np.meshgrid(side, side), -1).reshape(-1, 2)
    grid = jnp.asarray(grid[np.linalg.norm(grid, p, axis=1) <= 0.5])
    losses = jax.vmap(lambda x, y: jax.vmap(lambda g: -jax.nn.log_softmax(network(x + g))[y])(grid).max())(x, y)
    assert (np.asarray(found.loss) >= 0.99 * np.asarray(losses)).all()
    assert (found.distance <= 0.5 * (1 + 1e-12)).all()
    assert (found.success == (jnp.argmax(jax.vmap(network)(found.inputs), 1) != y)).all()


def test_batches_change_nothing(plane):
    network, x, y = plane
    ball = Ball(2, 0.4)
    alone = pgd(network, "cross_entropy", (x, y), ball, steps=10)
    parts = pgd(network, "cross_entropy", (x, y), ball, steps=10, batch_size=2)
    np.testing.assert_allclose(alone.inputs, parts.inputs, rtol=1e-9)
    assert (alone.success == parts.success).all()
    assert (alone.queries == parts.queries).all()


def test_examples_that_are_wrong_or_flipped_stop(plane):
    network, x, y = plane
    wrong = (y + 1) % 3
    found = pgd(network, "cross_entropy", (x, wrong), Ball(2, 1.0))
    assert found.success.all()
    assert (found.queries == 1).all()
    assert np.asarray(found.inputs).tobytes() == np.asarray(x).tobytes()
    flipped = pgd(network, "cross_entropy", (x, y), Ball(2, 3.0))
    assert (flipped.queries[flipped.success] < 41).all()


@pytest.mark.parametrize("p", [1, 2, np.inf])
def test_radius_zero_returns_the_input_bit_for_bit(plane, p):
    network, x, _ = plane
    x = x.at[0, 0].set(-0.0)
    y = jnp.argmax(jax.vmap(network)(x), 1)
    for found in (
        fgsm(network, "cross_entropy", (x, y), Ball(p, 0.0)),
        pgd(network, "cross_entropy", (x, y), Ball(p, 0.0), steps=3, restarts=2, key=KEY),
    ):
        assert np.asarray(found.inputs).tobytes() == np.asarray(x).tobytes()
        assert not found.success.any()


def test_the_box_is_respected_and_written_down(plane):
    network, x, y = plane
    low, high = x.min(), x.max()
    found = pgd(network, "cross_entropy", (x, y), Ball(np.inf, 0.5, low, high), stop=False)
    assert ((found.inputs >= low) & (found.inputs <= high)).all()
    assert found.ball.low == low
    assert found.ball.high == high


def test_targets(plane):
    network, x, y = plane
    target = (y + 1) % 3
    found = pgd(network, "cross_entropy", (x, y), Ball(2, 3.0), target=target, restarts=3, key=KEY)
    assert found.success.any()
    assert (found.success == (jnp.argmax(jax.vmap(network)(found.inputs), 1) == target)).all()


def test_regression_succeeds_where_the_loss_grows(linear):
    x, y = jnp.array([[0.5, 1.0, 2.0], [1.0, 0.0, 0.0]]), jnp.array([[0.1], [0.2]])
    found = pgd(linear, "squared", (x, y), Ball(2, 0.1))
    off = np.abs(x @ W - y[:, 0]) + 0.1 * np.linalg.norm(W)
    np.testing.assert_allclose(found.loss, off**2 / 2, rtol=1e-9)
    assert found.success.all()


def test_the_gradient_step_of_the_texts(linear):
    x, y = jnp.array([[1.0, 0.0, 0.0]]), jnp.array([1.0])
    # one step of 0.01 times the gradient of the logistic loss stays inside the ball
    found = pgd(linear, "logistic", (x, y), Ball(2, 1.0), steps=1, step=0.01, direction="gradient")
    np.testing.assert_allclose(found.inputs[0], x[0] - 0.01 * W / (1 + np.exp(0.5)), rtol=1e-12)


def test_dead_slopes_are_counted():
    x, y = jnp.array([[0.3, 0.2]]), jnp.array([1.0])
    zero = Network(lambda w, x: (w * jnp.round(x).sum() + 1)[None], jnp.ones(()))
    assert pgd(zero, "logistic", (x, y), Ball(2, 0.1), steps=5).dead.zero.tolist() == [5]
    # the slope of the hinge at margins below 1 is that of the linear function: the same wherever the input is
    straight = Network(lambda w, x: (w @ x)[None], jnp.array([0.1, 0.2]))
    moving = pgd(straight, "hinge", (x, y), Ball(2, 0.1), steps=3, step=0.01)
    assert moving.dead.constant.tolist() == [2]
    rooted = Network(lambda w, x: (w + jnp.sqrt(jnp.maximum(x[0] - 0.3, 0)))[None], jnp.ones(()))
    broken = pgd(rooted, "logistic", (x, y), Ball(2, 0.1), steps=4)
    assert broken.dead.nonfinite.tolist() == [4]
    assert np.isfinite(broken.inputs).all()
    assert fgsm(zero, "logistic", (x, y), Ball(2, 0.1)).dead.zero.tolist() == [1]


def test_traces_and_maps_over_networks(plane):
    _, x, y = plane
    keys = jax.random.split(KEY, 3)
    make = lambda key: MLP((2, 8, 3), relu, key=key)  # noqa: E731
    attack = jax.jit(jax.vmap(lambda key: pgd(make(key), "cross_entropy", (x, y), Ball(2, 0.3), steps=5).loss))
    one = pgd(make(keys[1]), "cross_entropy", (x, y), Ball(2, 0.3), steps=5).loss
    np.testing.assert_allclose(attack(keys)[1], one, rtol=1e-9)


def test_images_of_any_shape():
    network = eqx.nn.Sequential(
        [eqx.nn.Conv2d(1, 2, 3, key=KEY), eqx.nn.Lambda(jnp.ravel), eqx.nn.Linear(32, 2, key=jax.random.key(1))]
    )
    x = jax.random.uniform(KEY, (5, 1, 6, 6))
    y = jnp.argmax(jax.vmap(network)(x), 1)
    found = pgd(network, "cross_entropy", (x, y), Ball(np.inf, 0.2, 0.0, 1.0), steps=5, batch_size=2)
    assert found.inputs.shape == x.shape
    assert found.inputs.dtype == x.dtype
    assert (found.loss > fgsm(network, "cross_entropy", (x, y), Ball(np.inf, 0.01, 0.0, 1.0)).loss).all()


X, Y, BALL = np.zeros((2, 3)), np.array([1.0, -1.0]), Ball(2, 0.1)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"loss": BatchLoss(lambda network, batch: 0.0)}, "loss of every example"),
        ({"data": (X.astype(int), Y)}, "convert them to floating-point"),
        ({"data": ({"a": X}, Y)}, "one array of inputs"),
        ({"data": (X, np.array([3.0, 1.0]))}, "labels -1 and 1"),
        ({"ball": 0.1}, "must be a Ball"),
        ({"ball": Ball(2, 0.1, 1.0, 2.0)}, "lie in the box"),
        ({"ball": Ball(2, 0.1, np.zeros(2))}, "must fit one input"),
        ({"network": Network(lambda w, x: (w * x.sum() * jnp.nan)[None], jnp.ones(()))}, "finite numbers"),
        ({"restarts": 2}, "key must be given"),
        ({"direction": "gradient"}, "needs a step"),
        ({"target": jnp.array([1.0, 1.0])}, "must differ from the label"),
        ({"step": -1.0}, "step must be positive"),
        ({"steps": 0}, "steps must be at least 1"),
    ],
)
def test_sentences(linear, change, sentence):
    given = {"network": linear, "loss": "logistic", "data": (X, Y), "ball": BALL} | change
    with pytest.raises((ValueError, TypeError), match=sentence):
        pgd(given.pop("network"), given.pop("loss"), given.pop("data"), given.pop("ball"), **given)


def test_labels_out_of_range(linear, plane):
    network, x, _ = plane
    with pytest.raises(ValueError, match="from 0 to 2"):
        fgsm(network, "cross_entropy", (x, jnp.full(7, 3)), BALL)
    with pytest.raises(ValueError, match="no classes"):
        pgd(linear, "squared", (X, jnp.array([0.5, 1.5])), BALL, target=jnp.array([1, 0]))
