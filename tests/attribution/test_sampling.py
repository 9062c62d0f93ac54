from itertools import combinations
from math import ceil, comb, log

import numpy as np
import pytest

from corollary.attribution import group_constant, group_law, group_samples_needed, permutations_needed


@pytest.mark.parametrize("players", [2, 3, 7])
def test_the_law_of_sizes_gives_differences_of_shapley_values(players):
    """E[Z U(S) (1_i - 1_j)], set by set, for the indicator games of all sets: then it holds for every game."""
    law, constant = np.asarray(group_law(players)), group_constant(players)
    assert np.isclose(law.sum(), 1)
    assert law.shape == (players - 1,)
    for size in range(1, players):
        for inside in combinations(range(players), size):
            signs = np.isin(range(players), inside)
            mean = constant * law[size - 1] / comb(players, size) * (1.0 * signs[0] - signs[1])
            # of the game that is 1 for this set alone: increments into it, and out of it
            value = np.where(signs, 1 / (size * comb(players, size)), -1 / ((players - size) * comb(players, size)))
            np.testing.assert_allclose(mean, value[0] - value[1], atol=1e-14)


def test_counts_are_those_of_hoeffding():
    assert permutations_needed(10, 0.3, 0.05, 2.0) == ceil(2 * 4 * 10 / 0.09 * log(400))
    reach = group_constant(6) * 3.0
    assert group_samples_needed(6, 0.5, 0.1, 1.0, 3.0) == ceil(8 * reach**2 * 6 / 0.25 * log(120))


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: group_law(1), "players must be at least 2"),
        (lambda: permutations_needed(3, 0.0, 0.1, 1.0), "epsilon must be positive"),
        (lambda: permutations_needed(3, 0.1, 1.0, 1.0), "delta must be in"),
        (lambda: group_samples_needed(3, 0.1, 0.1, 1.0, -1.0), "largest must be positive"),
    ],
)
def test_sentences(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()
