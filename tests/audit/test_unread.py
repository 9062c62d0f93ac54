"""Images of which strides leave most out, sequences of which the last step alone is read, and those that are read."""

import jax.numpy as jnp
import numpy as np
import pytest

from corollary import Network, Subject
from corollary.audit.action import by_hand
from corollary.audit.sections import _unread

RNG = np.random.default_rng(0)
IMAGES = RNG.normal(size=(40, 12, 12)).astype(np.float32)
# a frame that never varies is none of the inputs that could be read
IMAGES[:, 0] = 1.0
LABELS = RNG.integers(0, 3, 40)


def subject(apply, inputs, x=IMAGES):
    w = jnp.asarray(RNG.normal(size=(inputs, 3)), jnp.float32)
    return Subject(Network(apply, w), "cross_entropy", (x, LABELS))


@pytest.mark.parametrize(
    ("apply", "inputs", "share", "mark"),
    [
        (lambda w, x: x.reshape(-1) @ w, 144, 0.0, "fine"),
        (lambda w, x: x[:11].reshape(-1) @ w, 132, 1 / 11, "fine"),
        (lambda w, x: x[1::4, ::4].reshape(-1) @ w, 9, 1 - 9 / 132, "look"),
        (lambda w, x: jnp.tanh(x[-1] @ w), 12, 10 / 11, "look"),
    ],
    ids=["all", "all but the last row", "strides", "the last step"],
)
def test_the_share_that_moves_nothing(apply, inputs, share, mark):
    finding = _unread.judge(_unread.measure(subject(apply, inputs)))
    assert finding.value == pytest.approx(100 * share)
    assert finding.mark == mark


def test_what_is_not_asked():
    assert _unread.measure(subject(lambda w, x: x @ w, 12, IMAGES[:, 0])) is None
    # a constant has a finding of its own
    assert _unread.measure(subject(lambda w, x: 0 * x[0] @ w, 12)) is None


def test_the_architecture_is_changed_by_hand():
    sick = subject(lambda w, x: x[-1] @ w, 12)
    action = _unread.read_all(sick, _unread.judge(_unread.measure(sick)))
    assert action.apply is by_hand
    assert action.effect.measured(sick) == action.effect.now
