from itertools import permutations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.attribution import Game, banzhaf, coalition_values, shapley, shapley_differences


def over_all_orders(values, players):
    """The definition: increments averaged over all orders, in plain Python."""
    total = np.zeros((players, *values.shape[1:]))
    orders = list(permutations(range(players)))
    for order in orders:
        inside = 0
        for player in order:
            total[player] += values[inside | 1 << player] - values[inside]
            inside |= 1 << player
    return total / len(orders)


@pytest.mark.parametrize("players", [1, 2, 5])
def test_exact_values_are_increments_over_all_orders(players):
    values = np.random.RandomState(players).randn(2**players, 2)
    found = shapley(Game.of_values(values))
    np.testing.assert_allclose(found.values, over_all_orders(values, players), atol=1e-14)
    np.testing.assert_array_equal(found.interval, np.stack([found.values] * 2))
    assert found.evaluations == 2**players


def test_all_values_are_asked_for_once_and_in_order():
    game = Game(4, lambda inside: jnp.sum(inside * jnp.array([1.0, 2.0, 4.0, 8.0])))
    np.testing.assert_array_equal(coalition_values(game, batch_size=5), np.arange(16.0))


def test_known_games():
    airport = jnp.array([1.0, 3.0, 3.5, 7.0])
    np.testing.assert_allclose(
        shapley(Game(4, lambda inside: jnp.max(inside * airport))).values,
        np.cumsum(np.diff([0, 1, 3, 3.5, 7]) / [4, 3, 2, 1]),
    )
    unanimous = Game(5, lambda inside: 1.0 * (inside[1] & inside[3] & inside[4]))
    np.testing.assert_allclose(shapley(unanimous).values, [0, 1 / 3, 0, 1 / 3, 1 / 3], atol=1e-15)
    np.testing.assert_allclose(banzhaf(unanimous).values, [0, 1 / 4, 0, 1 / 4, 1 / 4], atol=1e-15)


def test_differences_are_those_of_the_values():
    values = np.random.RandomState(0).randn(64)
    game = Game.of_values(values)
    exact = np.asarray(shapley(game).values)
    np.testing.assert_allclose(shapley_differences(game), exact[:, None] - exact, atol=1e-14)


@pytest.mark.parametrize("how", ["permutation", "group"])
def test_samples_come_near_and_their_intervals_cover(how):
    game = Game.of_values(np.random.RandomState(1).rand(32))
    exact = shapley(game).values

    @jax.jit
    def measure(key):
        found = jax.vmap(lambda key: shapley(game, how=how, samples=200, key=key)[:2])(jax.random.split(key, 1000))
        return found[0].mean(0), (found[1][:, 0] <= exact) & (exact <= found[1][:, 1])

    mean, covered = measure(jax.random.key(0))
    # of 1,000 means of 200 draws of size at most 1 (times 4.2 and doubled for groups)
    assert np.abs(mean - exact).max() < (0.02 if how == "permutation" else 0.15)
    # 95 % with a standard error of 0.7 %, and there are five of them
    assert covered.mean(0).min() > 0.92
    assert covered.mean(0).max() < 0.98


def test_orders_sum_to_what_all_are_worth_and_count_their_values():
    asked = []
    values = np.random.RandomState(2).randn(64)

    def value(inside):
        number = jnp.sum(inside * 2 ** jnp.arange(6))
        jax.debug.callback(lambda n: asked.append(int(n)), number)
        return jnp.asarray(values)[number]

    found = shapley(Game(6, value), how="permutation", samples=7, key=jax.random.key(0))
    jax.effects_barrier()
    np.testing.assert_allclose(found.values.sum(), values[-1] - values[0], atol=1e-14)
    assert len(asked) == found.evaluations == 2 + 7 * 5


def test_traces_maps_and_differentiates():
    def first(values):
        return shapley(Game.of_values(values)).values[0]

    slope = jax.jit(jax.grad(first))(jnp.arange(8.0))
    np.testing.assert_allclose(slope, np.array([-2, 2, -1, 1, -1, 1, -2, 2]) / 6, atol=1e-15)


def test_a_changed_function_is_not_found_under_the_old_program():
    for factor in (1.0, 2.0):
        assert float(shapley(Game(2, lambda inside, f=factor: f * inside[0])).values[0]) == factor


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: shapley(Game(21, lambda inside: 1.0 * inside[0])), "at most 20 players, and 21 have 2\\^21"),
        (lambda: shapley(Game(3, lambda inside: 1.0 * inside[0]), how="permutation"), "key must be given"),
        (lambda: shapley(Game(3, lambda inside: jnp.nan * inside[0])), "must be finite"),
        (lambda: shapley(3), "game must be a Game"),
        (lambda: shapley(Game(2, lambda inside: 1.0 * inside[0]), how="some"), "how must be one of"),
        (lambda: Game(2, 1.0), "value must be a function"),
        (lambda: Game(2, lambda inside: inside[0]), "real floating-point"),
        (lambda: Game(2, lambda inside: 1.0 * inside @ jnp.ones(3)), "value failed for a mask of shape \\(2,\\)"),
        (lambda: Game(0, lambda inside: 1.0), "players must be at least 1"),
        (lambda: Game.of_values(np.zeros(6)), "2\\^n values"),
        (lambda: shapley_differences(Game(1, lambda inside: 1.0 * inside[0])), "players must be at least 2"),
        (
            lambda: shapley(
                Game(2, lambda inside: 1.0 * inside[0]), how="group", key=jax.random.key(0), confidence=1.0
            ),
            "confidence must be",
        ),
    ],
)
def test_sentences(call, sentence):
    with pytest.raises((ValueError, TypeError), match=sentence):
        call()
