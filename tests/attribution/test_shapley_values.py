from itertools import permutations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.attribution import Game, feature_game, patch_players, shapley, shapley_values

KEY = jax.random.key(0)


@pytest.fixture
def network():
    return eqx.nn.MLP(4, 2, 5, 1, activation=jnp.tanh, key=KEY, dtype=jnp.float64)


def by_hand(network, one, background, groups):
    """All orders of the groups, in plain Python."""
    outputs = {}

    def value(inside):
        if inside not in outputs:
            mixed = np.array(background)
            for group in inside:
                mixed[:, groups[group]] = one[groups[group]]
            outputs[inside] = np.asarray(jax.vmap(network)(jnp.asarray(mixed))).mean(0)
        return outputs[inside]

    total, orders = 0.0, list(permutations(range(len(groups))))
    for order in orders:
        steps = [value(frozenset(order[:k])) for k in range(len(order) + 1)]
        total = total + np.stack([steps[order.index(g) + 1] - steps[order.index(g)] for g in range(len(groups))])
    return total / len(orders)


def test_values_are_those_of_all_orders(network):
    x, background = np.random.RandomState(0).randn(2, 4), np.random.RandomState(1).randn(3, 4)
    found = shapley_values(network, x, background, batch_size=20)
    wanted = np.stack([by_hand(network, one, background, [[0], [1], [2], [3]]) for one in x])
    np.testing.assert_allclose(found.values, wanted, atol=1e-14)
    assert found.evaluations == 3 * 16
    game = feature_game(network, x[0], background)
    np.testing.assert_allclose(shapley(game).values, wanted[0], atol=1e-14)


def test_groups_as_lists_and_as_numbers(network):
    x, background = np.random.RandomState(0).randn(1, 4), np.random.RandomState(1).randn(3, 4)
    lists = shapley_values(network, x, background, players=[[0, 3], [1, 2]]).values
    numbers = shapley_values(network, x, background, players=np.array([0, 1, 1, 0])).values
    np.testing.assert_allclose(lists, by_hand(network, x[0], background, [[0, 3], [1, 2]])[None], atol=1e-14)
    np.testing.assert_allclose(lists, numbers, atol=1e-15)


def test_what_belongs_to_nobody_is_always_present(network):
    x, background = np.random.RandomState(0).randn(1, 4), np.random.RandomState(1).randn(3, 4)
    kept = np.concatenate([background[:, :2], np.repeat(x[:, 2:], 3, 0)], 1)
    found = shapley_values(network, x, background, players=[[0], [1]]).values
    np.testing.assert_allclose(found, shapley_values(network, x, kept).values[:, :2], atol=1e-14)


def test_images_by_patches():
    np.testing.assert_array_equal(patch_players((3, 5), 2), [[0, 0, 1, 1, 2], [0, 0, 1, 1, 2], [3, 3, 4, 4, 5]])
    assert patch_players((4, 4, 3), 2).shape == (4, 4, 3)
    weight = jnp.asarray(np.random.RandomState(0).randn(4, 4))
    found = shapley_values(
        lambda one: jnp.sum(weight * one)[None],
        np.ones((1, 4, 4)),
        np.zeros((1, 4, 4)),
        players=patch_players((4, 4), 2),
    )
    np.testing.assert_allclose(found.values[0, :, 0], weight.reshape(2, 2, 2, 2).sum((1, 3)).ravel(), atol=1e-14)


@pytest.mark.parametrize("how", ["permutation", "group"])
def test_samples_cover_the_exact_values(network, how):
    x, background = np.random.RandomState(0).randn(2, 4), np.random.RandomState(1).randn(3, 4)
    exact = shapley_values(network, x, background)
    found = shapley_values(network, x, background, how=how, samples=500, key=KEY, confidence=0.9999)
    assert found.values.shape == exact.values.shape
    assert ((found.interval[0] <= exact.values) & (exact.values <= found.interval[1])).all()
    assert found.evaluations == 3 * (2 + 500 * 3)


def test_whole_numbers_may_be_inputs():
    table = jnp.asarray(np.random.RandomState(0).randn(5, 3))
    tokens, baseline = np.array([[1, 4]]), np.array([[0, 0]])
    found = shapley_values(lambda one: table[one].prod(0), tokens, baseline).values[0]
    np.testing.assert_allclose(found.sum(0), table[1] * table[4] - table[0] ** 2, atol=1e-14)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"x": np.zeros((1, 21)), "background": np.zeros((1, 21))}, "21 have 2\\^21"),
        ({"background": np.zeros((0, 4))}, "background must not be empty"),
        ({"background": np.zeros((5, 4))}, "background holds one row 5 times"),
        ({"background": np.zeros((1, 3))}, "of the shape of those of x"),
        ({"x": np.full((1, 4), np.nan)}, "x must be finite"),
        ({"players": [[0, 1], [1, 2]]}, "players must not overlap, coordinate 1"),
        ({"players": [[0, 4]]}, "coordinates from 0 to 3, got 4"),
        ({"players": np.array([0, 2, 2, 0])}, "nothing belongs to player 1"),
        ({"players": np.array([0, 1])}, "shape of an example"),
        ({"players": np.array([0.0, 1.0, 0.0, 1.0])}, "whole numbers"),
        ({"players": []}, "at least one group"),
        ({"how": "group"}, "key must be given"),
        ({"x": {"a": np.zeros((1, 4))}}, "one array of examples"),
        ({"network": 3}, "network must be callable"),
    ],
)
def test_sentences(change, sentence):
    given = {"network": lambda one: one[:1], "x": np.ones((1, 4)), "background": np.zeros((1, 4))} | change
    with pytest.raises((ValueError, TypeError), match=sentence):
        shapley_values(given.pop("network"), given.pop("x"), given.pop("background"), **given)


def test_patches_of_no_image():
    with pytest.raises(ValueError, match="that of an image"):
        patch_players((4,), 2)
    assert isinstance(feature_game(lambda one: one, np.ones(2), np.zeros((1, 2))), Game)
