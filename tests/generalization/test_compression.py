"""Descriptions of networks: counted by hand, against SciPy and brute force, and codes that could be decoded."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from scipy import special

from corollary import Network
from corollary.generalization import compression_bound, compression_error, only_kept, prune, quantise
from corollary.generalization.compression import log_binomial, on_grid, whole_number_nats
from corollary.nets import MLP, relu, train

KEY = jax.random.key(0)


def net(seed=0, **options):
    return MLP((3, 4, 2), relu, key=jax.random.key(seed), **options)


def numbers(network):
    return np.concatenate([np.ravel(a) for a in jax.tree.leaves(eqx.filter(network, eqx.is_array))])


def test_bound_against_its_formula():
    bound = compression_bound(1000, 12, 8, 0.05, mask=40, risk=0.1).check()
    nats = 12 * np.log(8) + np.log(special.comb(40, 12)) + np.log(20)
    np.testing.assert_allclose(bound.value, 0.1 + np.sqrt(nats / 2000), rtol=1e-12)
    plain = compression_bound(1000, 12, 8, 0.05)
    np.testing.assert_allclose(plain.value, np.sqrt((12 * np.log(8) + np.log(20)) / 2000), rtol=1e-12)
    assert set(bound.terms) == {"training error", "values", "mask", "confidence"}
    np.testing.assert_allclose(compression_bound(50, 0, 8, 0.05, mask=40).value, np.sqrt(np.log(20) / 100), rtol=1e-9)
    assert compression_bound([100, 200], 3, 2, 0.1).value.shape == (2,)


def test_choices_are_counted():
    np.testing.assert_allclose(log_binomial(30.0, np.arange(31.0)), np.log(special.comb(30, np.arange(31))), atol=1e-12)


def test_whole_numbers_have_words_none_of_which_begins_another():
    # Kraft: the probabilities of all words sum to at most 1; here to 1 - 2^-16 for numbers below 2^16
    nats = np.asarray(whole_number_nats(np.arange(1, 2**16)))
    np.testing.assert_allclose(np.exp(-nats).sum(), 1 - 2.0**-16, rtol=1e-12)
    bits = np.round(nats / np.log(2))
    np.testing.assert_array_equal(bits[[0, 1, 2, 3, 6, 7]], [1, 3, 3, 5, 5, 7])


@pytest.mark.parametrize("levels", [2, 3, 8, 255])
def test_grid_is_the_nearest_of_its_levels(levels):
    values = np.random.default_rng(0).normal(size=200)
    grid = np.abs(values).max() * np.linspace(-1, 1, levels)
    nearest = grid[np.abs(values[:, None] - grid).argmin(1)]
    np.testing.assert_allclose(on_grid(jnp.asarray(values), levels), nearest, atol=1e-12)
    np.testing.assert_array_equal(on_grid(jnp.zeros(3), levels), np.zeros(3))


def test_prune_keeps_the_largest():
    network = net()
    found = prune(network, 7)
    before, after = numbers(network), numbers(found.network)
    largest = np.argsort(-np.abs(before))[:7]
    expected = np.zeros_like(before)
    expected[largest] = before[largest]
    np.testing.assert_array_equal(after, expected)
    np.testing.assert_array_equal(numbers(found.kept), expected != 0)
    assert jax.tree.structure(found.network) == jax.tree.structure(eqx.nn.inference_mode(network))
    nats = found.description.nats
    np.testing.assert_allclose(nats["values"], 7 * 64 * np.log(2))
    np.testing.assert_allclose(nats["mask"], np.log(special.comb(26, 7)), rtol=1e-12)
    np.testing.assert_allclose(nats["how many are kept"], 7 * np.log(2))  # of 8 = 7 + 1
    assert found.description.parameters == 7
    np.testing.assert_array_equal(numbers(prune(network, 26).network), before)


def test_prune_with_a_helper_goes_back_to_it():
    start, network = net(1), net(2)
    found = prune(network, 5, helper=start)
    away = np.abs(numbers(network) - numbers(start))
    near = np.argsort(-away)[5:]
    np.testing.assert_array_equal(numbers(found.network)[near], numbers(start)[near])
    far = np.argsort(-away)[:5]
    np.testing.assert_array_equal(numbers(found.network)[far], numbers(network)[far])


def test_what_is_not_trained_is_free():
    network = net()
    last = jax.tree.map(lambda _: False, network)
    last = eqx.tree_at(lambda n: n.layers[-1].weight, last, True)
    found = prune(network, 3, trainable=last)
    np.testing.assert_array_equal(found.network.layers[0].weight, network.layers[0].weight)
    assert np.count_nonzero(found.network.layers[-1].weight) == 3
    np.testing.assert_allclose(found.description.nats["mask"], np.log(special.comb(8, 3)), rtol=1e-12)
    np.testing.assert_allclose(quantise(network, 4, trainable=last).description.nats["values"], 8 * np.log(4))


def test_quantise_takes_every_array_to_its_grid():
    network = net()
    found = quantise(network, 5)
    for before, after in zip(
        *(jax.tree.leaves(eqx.filter(n, eqx.is_array)) for n in (network, found.network)), strict=True
    ):
        a = np.abs(np.asarray(before)).max()
        steps = (np.asarray(after) / a + 1) * 2
        np.testing.assert_allclose(steps, np.round(steps), atol=1e-12)
        assert np.abs(before - after).max() <= a / 4 + 1e-12
    nats = found.description.nats
    np.testing.assert_allclose(nats["values"], 26 * np.log(5))
    np.testing.assert_allclose(nats["scales"], 4 * 64 * np.log(2))
    np.testing.assert_allclose(found.description.total, sum(float(v) for v in nats.values()))
    assert found.kept is None


def test_pruned_and_quantised():
    network, start = net(), net(3)
    for helper in (None, start):
        kept = prune(network, 6, helper=helper).kept
        found = quantise(network, 2, kept=kept, helper=helper)
        base = np.zeros(26) if helper is None else numbers(helper)
        stays = numbers(kept).astype(bool)
        np.testing.assert_array_equal(numbers(found.network)[~stays], base[~stays])
        assert (numbers(found.network)[stays] != base[stays]).all()
        assert found.description.parameters == 6
        np.testing.assert_allclose(found.description.nats["values"], 6 * np.log(2))
        np.testing.assert_allclose(found.description.nats["mask"], np.log(special.comb(26, 6)), rtol=1e-12)


def test_bound_of_a_compressed_network_counts_its_errors():
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(40, 3)), rng.integers(0, 2, 40)
    found = quantise(net(), 4)
    wrong = np.mean([np.argmax(found.network(a)) != b for a, b in zip(x, y, strict=True)])
    bound = found.bound((x, y), 0.05, batch_size=16).check()
    np.testing.assert_allclose(bound.terms["training error"], wrong)
    expected = wrong + np.sqrt((float(found.description.total) + np.log(20)) / 80)
    np.testing.assert_allclose(bound.value, expected, rtol=1e-12)


def test_one_output_is_a_sign_and_a_tie_is_an_error():
    x = np.array([[1.0], [-1.0], [0.0], [2.0]])
    network = Network(lambda w, x: w @ x, jnp.ones(1))
    for y in ([1, -1, 1, -1], [1, 0, 1, 0]):
        np.testing.assert_allclose(quantise(network, 2).bound((x, y), 0.5).terms["training error"], 0.5)


def test_compression_error_is_the_largest_difference():
    x = np.random.default_rng(2).normal(size=(11, 3))
    network, other = net(), net(4)
    expected = max(np.abs(network(a) - other(a)).max() for a in x)
    np.testing.assert_allclose(compression_error(network, other, x, batch_size=4), expected, rtol=1e-12)


def test_retraining_moves_only_what_is_kept():
    params, kept = {"a": jnp.ones(3)}, {"a": jnp.array([True, False, True])}
    optimiser = optax.chain(optax.adam(0.1), only_kept(kept))
    updates, _ = optimiser.update({"a": jnp.ones(3)}, optimiser.init(params), params)
    np.testing.assert_array_equal(updates["a"] != 0, kept["a"])


def test_a_pruned_network_is_trained_by_the_house():
    rng = np.random.default_rng(3)
    data = rng.normal(size=(30, 3)), rng.integers(0, 2, 30)
    small = prune(net(), 9)
    run = train(small.network, "cross_entropy", data, optax.chain(optax.adam(0.05), only_kept(small.kept)), steps=20)
    stays = numbers(small.kept).astype(bool)
    np.testing.assert_array_equal(numbers(run.network)[~stays], 0)
    assert (numbers(run.network)[stays] != numbers(small.network)[stays]).any()
    assert run.losses[-1] < run.losses[0]
    assert quantise(run.network, 8, kept=small.kept).description.parameters == 9


def test_under_jit_and_vmap():
    networks = eqx.filter_vmap(lambda key: MLP((3, 4, 2), relu, key=key))(jax.random.split(KEY, 3))
    found = eqx.filter_jit(eqx.filter_vmap(lambda n: quantise(n, 3, kept=prune(n, 4).kept)))(networks)
    assert found.description.parameters.tolist() == [4, 4, 4]
    assert all(np.count_nonzero(row) <= 4 for row in np.asarray(found.network.layers[0].weight).reshape(3, -1))


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: compression_bound(10, 5, 2, 0.05, mask=4), "mask - parameters must be zero or more"),
        (lambda: compression_bound(10, 5, 0.5, 0.05), "levels must be at least 1"),
        (lambda: compression_bound(10, 5, 2, 1.5), r"delta must be in \(0, 1\)"),
        (lambda: compression_bound(10, 5, 2, 0.5, risk=2.0), r"risk must be an average of losses in \[0, 1\]"),
        (lambda: prune(net(), 27), "keep must be from 1 to 26"),
        (lambda: prune(3.0, 1), "network must be callable with one example"),
        (lambda: prune(net(), 3, helper=MLP((3, 5, 2), key=KEY)), "helper.* must have shape"),
        (lambda: quantise(net(), 1), "levels must be from 2"),
        (lambda: quantise(net(), 4, kept=jnp.ones(3, bool)), "kept must have the structure of the network"),
        (lambda: quantise(net(), 4).bound((np.ones((2, 3)), [0, 5]), 0.05), "y must hold labels from 0 to 1"),
        (lambda: quantise(net(), 4).bound((np.ones((2, 3)), [0.5, 1]), 0.05), "y must hold whole numbers"),
        (lambda: quantise(net(), 4).bound(np.ones((2, 3)), 0.05), r"data must be a pair \(x, y\)"),
        (
            lambda: quantise(Network(lambda w, x: w @ x, jnp.ones(3)), 4).bound((np.ones((2, 3)), [3, 1]), 0.05),
            "y must hold labels -1 and 1, or 0 and 1",
        ),
        (
            lambda: quantise(Network(lambda w, x: w * x[:, None], jnp.ones(3)), 4).bound(
                (np.ones((2, 3)), [0, 1]), 0.05
            ),
            "network must return one number per class",
        ),
    ],
)
def test_sentences(call, sentence):
    with pytest.raises((TypeError, ValueError), match=sentence):
        call()
