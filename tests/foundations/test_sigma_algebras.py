import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corollary.foundations import ProbabilitySpace, atoms, generate_sigma_algebra, is_measurable, is_sigma_algebra


def closure(events):
    """Brute force: add complements and unions until nothing new comes."""
    n = len(events[0])
    family = {frozenset(i for i in range(n) if e[i]) for e in events} | {frozenset(), frozenset(range(n))}
    while True:
        more = family | {frozenset(range(n)) - a for a in family} | {a | b for a in family for b in family}
        if more == family:
            return family
        family = more


families = st.integers(1, 5).flatmap(
    lambda n: st.lists(st.lists(st.booleans(), min_size=n, max_size=n), min_size=1, max_size=4)
)


@given(families)
@settings(max_examples=60, deadline=None)
def test_generated_algebra_against_brute_force(events):
    made = generate_sigma_algebra(np.array(events))
    assert {frozenset(np.flatnonzero(row).tolist()) for row in made} == closure(events)
    assert len(made) == len(closure(events))
    assert is_sigma_algebra(made)
    assert is_sigma_algebra(np.array(events)) == (len({tuple(e) for e in events}) == len(closure(events)))


def test_atoms_are_numbered_as_they_appear():
    assert atoms(np.array([[0, 0, 1, 1, 0]])).tolist() == [0, 0, 1, 1, 0]


def test_the_family_without_a_complement():
    assert not is_sigma_algebra(np.array([[0, 0, 0], [1, 0, 0], [1, 1, 1]]))


def test_measurability_of_the_sum_of_two_dice():
    total = np.add.outer(np.arange(1, 7), np.arange(1, 7)).ravel()
    assert is_measurable(total, np.eye(36)) == (True, None)
    assert is_measurable(total, np.ones((1, 36))) == (False, 2.0)
    assert is_measurable(np.ones(36), np.ones((1, 36))).measurable


def test_probability_space():
    space = ProbabilitySpace.of_weights([0.5, 0.3, 0.2], [[1, 0, 0]])
    assert len(space.events) == 4
    assert space.probability([0, 1, 1]) == pytest.approx(0.5)
    with pytest.raises(ValueError, match="event must be one of the events"):
        space.probability([0, 1, 0])
    assert ProbabilitySpace.of_weights([0.5, 0.3, 0.2]).probability([0, 1, 0]) == pytest.approx(0.3)


def test_bad_input():
    algebra = generate_sigma_algebra(np.array([[1, 0]]))
    with pytest.raises(ValueError, match="probabilities must be additive"):
        ProbabilitySpace(algebra, [0.0, 0.5, 0.5, 0.7])
    with pytest.raises(ValueError, match="whole space 1"):
        ProbabilitySpace(algebra, [0.0, 0.5, 0.6, 1.1])
    with pytest.raises(ValueError, match="must not be negative"):
        ProbabilitySpace(algebra, [0.0, -0.5, 1.5, 1.0])
    with pytest.raises(ValueError, match="one number for each of 4 events"):
        ProbabilitySpace(algebra, [0.0, 1.0])
    with pytest.raises(ValueError, match="events must be a sigma-algebra"):
        ProbabilitySpace([[1, 0]], [1.0])
    with pytest.raises(ValueError, match="generators must have 3 truth values"):
        ProbabilitySpace.of_weights([0.5, 0.3, 0.2], [[1, 0]])
    with pytest.raises(ValueError, match="event must have 2 truth values"):
        ProbabilitySpace(algebra, [0.0, 0.5, 0.5, 1.0]).probability([1, 0, 0])
    with pytest.raises(ValueError, match="at most 20 atoms"):
        generate_sigma_algebra(np.eye(30))
    with pytest.raises(ValueError, match="rows of truth values"):
        atoms([1, 0])
    with pytest.raises(ValueError, match="must hold truth values, got 2"):
        atoms([[1, 2]])
    with pytest.raises(ValueError, match="one number for each of 2 outcomes"):
        is_measurable([1.0, 2.0, 3.0], [[1, 0]])
    with pytest.raises(TypeError, match="must not be traced by jit"):
        jax.jit(lambda e: atoms(e))(np.eye(2))
