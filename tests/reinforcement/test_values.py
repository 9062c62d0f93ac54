"""Targets of values against NumPy, and what is checked of a network and its transitions."""

import numpy as np
import pytest

from corollary.reinforcement import History, Table
from corollary.reinforcement.values import actions_of, checked, chosen_values, later_values, value_target, values_of

RNG = np.random.default_rng(0)
Q, HELD = RNG.normal(size=(2, 3, 2))
X, Z = RNG.integers(0, 3, (2, 6))
ENDED, NO = RNG.random(6) < 0.4, np.zeros(6, bool)
MOVES = History(X, RNG.integers(0, 2, 6), RNG.normal(size=6), Z, ENDED, NO)


@pytest.mark.parametrize("double", [False, True])
def test_targets_by_numpy(double):
    best = (Q if double else HELD)[Z].argmax(1)
    expected = MOVES.reward + 0.7 * np.where(ENDED, 0, HELD[Z, best])
    chooser = Table(Q) if double else None
    np.testing.assert_allclose(value_target(Table(HELD), MOVES, 0.7, chooser=chooser), expected, rtol=1e-12)
    np.testing.assert_allclose(later_values(Table(HELD), MOVES, chooser=chooser)[~ENDED], HELD[Z, best][~ENDED])


def test_values_of_what_was_done_and_of_all_actions():
    np.testing.assert_array_equal(chosen_values(Table(Q), X, MOVES.action), Q[X, MOVES.action])
    np.testing.assert_array_equal(values_of(Table(Q), X), Q[X])
    assert actions_of(Table(Q), X) == checked(Table(Q), MOVES)[1] == 2


def test_the_sentence_has_the_name_of_the_argument():
    with pytest.raises(TypeError, match="moves must be a History, as rollout returns it, got tuple"):
        checked(Table(Q), (X, Z), name="moves")
    with pytest.raises(ValueError, match="truncated must hold one truth value per transition"):
        checked(Table(Q), MOVES._replace(truncated=np.zeros(6)))
