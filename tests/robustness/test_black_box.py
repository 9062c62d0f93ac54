"""Attacks without gradients: the same as with them where the network is smooth; queries counted; rounding passed by."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary import Network
from corollary.nets import MLP, tanh
from corollary.robustness import Ball, QuantisedInput, finite_difference_pgd, pgd, straight_through, transfer

KEY = jax.random.key(0)


@pytest.fixture(scope="module")
def smooth():
    with jax.enable_x64(True):
        network = MLP((3, 8, 2), tanh, key=KEY)
        x = jax.random.uniform(jax.random.key(1), (5, 3))
        return network, (x, jnp.argmax(jax.vmap(network)(x), 1))


@pytest.mark.parametrize(("scheme", "each"), [("central", 7), ("forward", 4)])
def test_differences_find_what_gradients_find(smooth, scheme, each):
    network, data = smooth
    asked = finite_difference_pgd(network, "cross_entropy", data, Ball(2, 0.3), scheme=scheme, steps=4, stop=False)
    white = pgd(network, "cross_entropy", data, Ball(2, 0.3), steps=4, stop=False)
    np.testing.assert_allclose(asked.loss, white.loss, rtol=1e-6)
    assert (asked.queries == 4 * each + 1).all()


def test_transfer_is_judged_by_the_other_network(smooth):
    network, (x, y) = smooth
    source = MLP((3, 8, 2), tanh, key=jax.random.key(3))
    found = transfer(source, network, "cross_entropy", (x, y), Ball(np.inf, 0.5), steps=5)
    white = pgd(source, "cross_entropy", (x, y), Ball(np.inf, 0.5), steps=5, stop=False)
    assert (found.inputs == white.inputs).all()
    assert (found.success == (jnp.argmax(jax.vmap(network)(found.inputs), 1) != y)).all()
    np.testing.assert_allclose(found.loss, jax.vmap(lambda x, y: -jax.nn.log_softmax(network(x))[y])(found.inputs, y))


def test_rounding_hides_the_gradient_and_straight_through_finds_it():
    linear = Network(lambda w, x: (w @ x)[None], jnp.array([1.0, -2.0]))
    hidden = QuantisedInput(linear, 5)
    x = jnp.array([0.3, 0.6])
    np.testing.assert_allclose(hidden.quantise(jnp.array([0.3, 0.6, -1.0, 2.0])), [0.25, 0.5, 0.0, 1.0])
    through = straight_through(hidden.quantise, linear)
    assert through(x) == hidden(x)
    assert (jax.jacobian(hidden)(x) == 0).all()
    np.testing.assert_allclose(jax.jacobian(through)(x)[0], [1.0, -2.0])
    data = x[None], jnp.array([-1.0])
    ball = Ball(np.inf, 0.4, 0.0, 1.0)
    assert (pgd(hidden, "logistic", data, ball, steps=3).dead.zero == 3).all()
    assert pgd(through, "logistic", data, ball, steps=3).success.all()


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda n, d: finite_difference_pgd(n, "cross_entropy", d, Ball(2, 0.1), width=0.0), "width must be positive"),
        (
            lambda n, d: finite_difference_pgd(n, "cross_entropy", d, Ball(2, 0.1), scheme="odd"),
            "scheme must be one of",
        ),
        (lambda n, d: transfer(3, n, "cross_entropy", d, Ball(2, 0.1)), "callable"),
        (lambda n, d: straight_through(3, n), "transform must be a function"),
        (lambda n, d: straight_through(jnp.sum, n)(d[0][0]), "keep the shape"),
        (lambda n, d: QuantisedInput(n, 1), "levels must be at least 2"),
        (lambda n, d: QuantisedInput(n, 4, 1.0, 1.0), "low must be less than high"),
    ],
)
def test_sentences(smooth, call, sentence):
    with pytest.raises((ValueError, TypeError), match=sentence):
        call(*smooth)
