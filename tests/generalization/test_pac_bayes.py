"""Certificates for networks: each term from its definition, the bound on new examples, and what is refused."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from scipy import optimize, stats

from corollary import Network
from corollary.generalization import pac_bayes as guarded
from corollary.generalization._fresh import fresh
from corollary.generalization._posterior import COLD, Goal, _drawn, slopes, trained
from corollary.generalization.pac_bayes import pac_bayes
from corollary.generalization.pac_bayes_bounds import log_moment, maurer_seeger, mcallester
from corollary.generalization.stochastic import StochasticNetwork
from corollary.nets import MLP, tanh, train

KEY = jax.random.key(0)
OPTIONS = {"steps": 100, "batch_size": 50, "draws": 5, "key": KEY}


def _sample(key, n):
    x = jax.random.normal(key, (n, 3))
    return x, (x[:, 0] + 0.3 * x[:, 1] > 0).astype(int)


DATA = _sample(KEY, 300)
INITIAL = MLP((3, 6, 1), tanh, key=jax.random.key(1))
NETWORK = train(INITIAL, "cross_entropy", DATA, optax.adam(0.03), steps=100).network


@pytest.fixture(scope="module")
def made():
    with jax.enable_x64(True):
        priors = {"initial": "initial", "half": 0.5}
        return {
            name: pac_bayes(NETWORK, "cross_entropy", DATA, initial=INITIAL, prior=p, **OPTIONS)
            for name, p in priors.items()
        }


def _inverse(q, c):
    """The largest p with kl(q‖p) at most c, by SciPy."""
    kl = lambda p: stats.entropy([q, 1 - q], [p, 1 - p]) - c  # noqa: E731
    return optimize.brentq(kl, q, 1 - 1e-12, xtol=1e-13)


@pytest.mark.parametrize("prior", ["initial", "half"])
def test_value_from_its_pieces_with_scipy(made, prior):
    c, n = made[prior], 300 if prior == "initial" else 150
    leaves = [np.asarray(a, float) for a in jax.tree.leaves(eqx.filter(c.posterior.mean, eqx.is_array))]
    centres = [np.asarray(a, float) for a in jax.tree.leaves(eqx.filter(c.prior.mean, eqx.is_array))]
    scales, widths = ([np.asarray(a, float) for a in jax.tree.leaves(law.scale)] for law in (c.posterior, c.prior))
    kl = sum(
        np.sum(np.log(w / s) + (s**2 + (m - o) ** 2) / (2 * w**2) - 0.5)
        for m, s, o, w in zip(leaves, scales, centres, widths, strict=True)
    )
    np.testing.assert_allclose(c.kl, kl, rtol=1e-5)
    above = _inverse(int(c.errors) / (5 * n), np.log(1 / 0.01) / (5 * n))
    priors = 4 * np.log(2400) if prior == "initial" else 0
    level = (kl + priors + float(log_moment("kl", n)) + np.log(1 / 0.025)) / n
    np.testing.assert_allclose(c.value, _inverse(above, level), rtol=1e-5)
    np.testing.assert_allclose(c.bound.delta, 0.035, rtol=1e-6)
    assert not c.vacuous
    assert c.check(DATA) is c
    # an exact interval of binomial trials is no wider, and not much narrower
    exact = stats.beta.ppf(0.99, int(c.errors) + 1, 5 * n - int(c.errors))
    assert exact <= above <= 1.5 * exact


def test_certificate_covers_the_error_on_new_examples(made):
    new = _sample(jax.random.key(9), 4000)
    for c in made.values():
        share = int(c.posterior.errors(new, draws=1, key=KEY)) / 4000
        assert share < c.value < 0.75


def test_training_lowers_the_bound(made):
    start = pac_bayes(NETWORK, "cross_entropy", DATA, initial=INITIAL, **OPTIONS | {"steps": 1})
    assert made["initial"].value < start.value
    square = pac_bayes(NETWORK, "cross_entropy", DATA, initial=INITIAL, objective="square", **OPTIONS)
    assert square.value < start.value


def test_prior_scales_are_the_best_of_the_grid(made):
    c = made["initial"]
    for factor in (0.99, 1.01):
        other = eqx.tree_at(
            lambda law: jax.tree.leaves(law.scale), c.prior, [factor * s for s in jax.tree.leaves(c.prior.scale)]
        )
        assert c.posterior.kl(other) > c.kl


def test_slopes_are_those_of_the_bounds():
    n, kl, error, loss = 500, 40.0, 0.1, 0.4
    seen, nats = jnp.array([error, loss]), float(log_moment("kl", n)) + np.log(20)
    # the loss is worth error/loss of itself: along it the error is loss · (error/loss)
    sharp = lambda loss, kl: maurer_seeger(n, kl, 0.05, risk=loss * error / 0.4).value  # noqa: E731
    np.testing.assert_allclose(slopes(Goal("kl", nats, n), seen, kl), jax.grad(sharp, (0, 1))(loss, kl), rtol=1e-6)
    root = lambda loss, kl: mcallester(n, kl, 0.05, risk=loss * error / 0.4).value  # noqa: E731
    nats = np.log(4 * n) / 2 + np.log(20)
    np.testing.assert_allclose(slopes(Goal("square", nats, n), seen, kl), jax.grad(root, (0, 1))(loss, kl), rtol=1e-6)


@pytest.mark.parametrize("batch_size", [1, 3])  # a half of one example is empty
def test_training_finds_the_optimum_of_a_quadratic(batch_size):
    """Of (w·x - y)² on unit vectors x the mean over w is (m - y)² + s² along each, so that the optimum is known."""
    n, prior_scale = 3, 0.2
    network = Network(lambda w, x: jnp.sum(w * x), jnp.zeros(3))
    prior = StochasticNetwork(network, prior_scale)
    data = np.sqrt(n) * jnp.eye(n), jnp.array([1.0, -1.0, 1.0])  # each is one in three of the batch
    loss = lambda f, y: (f - y) ** 2 / 10  # noqa: E731
    with jax.enable_x64(True):
        goal = Goal("evidence", jnp.zeros(()), n)
        found = trained(prior, prior, loss, data, goal, 6000, batch_size, KEY)
    pull = COLD / n / prior_scale**2  # of the KL, against twice the curvature of the mean loss, 2/10
    np.testing.assert_allclose(found.mean.params, 0.2 / (0.2 + pull) * np.array([1, -1, 1]) / np.sqrt(n), rtol=0.05)
    np.testing.assert_allclose(jax.tree.leaves(found.scale)[0], np.sqrt(COLD / n / (0.2 + pull)), rtol=0.05)


def test_a_certificate_does_not_depend_on_how_layers_are_stored(made):
    def turned(network):
        layers = [(layer.weight.T, layer.bias) for layer in network.layers]
        return Network(lambda p, x: jnp.tanh(x @ p[0][0] + p[0][1]) @ p[1][0] + p[1][1], layers)

    with jax.enable_x64(True):
        other = pac_bayes(turned(NETWORK), "cross_entropy", DATA, initial=turned(INITIAL), **OPTIONS)
    np.testing.assert_allclose(other.value, made["initial"].value, rtol=1e-4)


def test_examples_and_coins_of_a_step():
    rows, heads = _drawn(KEY, 20_000, 7, [(300, 400), (400,), (1, 5), ()])
    assert [z.shape for z in heads] == [(300, 400), (400,), (1, 5), ()]
    np.testing.assert_allclose(np.bincount(rows), 20_000 / 7, rtol=0.1)  # five standard errors
    z = 2.0 * np.asarray(heads[0]) - 1
    # standard errors: 0.003 of 120,000 coins, 0.004 of their products with others; rows of one word are 10 apart
    assert abs(z.mean()) < 0.015
    others = [z[:, ::2] * z[:, 1::2], z[1:] * z[:-1], z[10:] * z[:-10], z[:, :40] * z[:, 40:80]]
    assert all(abs(product.mean()) < 5 / product.size**0.5 for product in others)


def test_what_was_changed_is_noticed(made):
    c = made["initial"]
    with pytest.raises(ValueError, match="relative entropy"):
        eqx.tree_at(lambda c: c.kl, c, c.kl * 0.9).check(DATA)
    with pytest.raises(ValueError, match="not the data"):
        c.check((DATA[0], 1 - DATA[1]))
    with pytest.raises(ValueError, match="paid for"):
        eqx.tree_at(lambda c: jax.tree.leaves(c.prior.scale)[0], c, 1.002 * jax.tree.leaves(c.prior.scale)[0]).check(
            DATA
        )
    with pytest.raises(ValueError, match="terms of a bound|pieces give"):
        eqx.tree_at(lambda c: c.bound.value, c, c.value - 0.05).check(DATA)


def test_several_certificates_are_one_program():
    def one(key):
        c = pac_bayes(NETWORK, "cross_entropy", DATA, initial=INITIAL, **OPTIONS | {"key": key})
        return c.value, c.errors

    values, errors = jax.jit(jax.vmap(one))(jnp.stack([KEY, jax.random.key(5)]))
    alone = pac_bayes(NETWORK, "cross_entropy", DATA, initial=INITIAL, **OPTIONS | {"key": jax.random.key(5)})
    np.testing.assert_allclose(values[1], alone.value, rtol=1e-2)  # sums in another order, over 100 steps
    assert abs(int(errors[1]) - int(alone.errors)) < 20


BATCHED = Network(lambda w, x: x @ w, jnp.ones((3, 4)), batched=True)
FEW = tuple(a[:6] for a in DATA)
TWICE = tuple(jnp.concatenate([a[:20], a[:20]]) for a in DATA)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"data": FEW}, "at least 8 examples for the certificate, got 6"),
        ({"data": tuple(a[:18] for a in DATA), "prior": 0.3}, "at least 8 examples for the prior, got 5"),
        ({"data": TWICE, "prior": 0.5}, "both in the prior's part"),
        ({"data": (DATA[0], DATA[0][:, 0])}, "classes 0 and 1"),
        ({"loss": "squared"}, "trains a classifier"),
        ({"loss": lambda f, y: 5 * jnp.sum(f - y) ** 2}, r"in \[0, 1\], got values from 0"),
        ({"delta": 1.0}, "delta must be in"),
        ({"delta_draws": 0.0}, "delta_draws must be in"),
        ({"prior": 1.5}, "prior must be in"),
        ({"prior": "network"}, "prior must be"),
        ({"objective": "evidence"}, "objective must be"),
        ({"initial": None}, "initial must be given, .* prior=0.5"),
        ({"initial": NETWORK}, "weights of network itself"),
        ({"initial": BATCHED}, "structure of the network"),
    ],
)
def test_what_gives_no_bound_is_said(change, says):
    given = {"network": NETWORK, "loss": "cross_entropy", "data": DATA, "initial": INITIAL, **OPTIONS} | change
    with pytest.raises((ValueError, TypeError), match=says):
        guarded(given.pop("network"), given.pop("loss"), given.pop("data"), **given)


def test_new_weights_see_names_and_shapes_alone():
    network = Network(
        lambda p, x: x, {"weight": jnp.full((4, 3), 7.0), "scale": jnp.full(3, 7.0), "b": jnp.full(3, 7.0)}
    )
    one = fresh(network, KEY)
    other = fresh(network.with_params(jax.tree.map(jnp.negative, network.params)), KEY)
    for a, b in zip(*map(jax.tree.leaves, (one, other)), strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(one.params["scale"], 1)
    np.testing.assert_array_equal(one.params["b"], 0)
    wide = fresh(Network(lambda p, x: x, {"w": jnp.zeros((300, 200))}), KEY)
    # 60,000 draws of variance 2/250: their mean square is off by a standard deviation of √(2/60,000), 0.6 %
    np.testing.assert_allclose(np.mean(np.asarray(wide.params["w"]) ** 2), 2 / 250, rtol=0.03)


def test_posterior_without_scale_is_infinitely_far(made):
    c = made["initial"]
    still = jax.tree.map(jnp.zeros_like, c.posterior.scale)
    point = eqx.tree_at(lambda c: c.posterior.scale, c, still)
    with pytest.raises(ValueError, match="infinitely far"):
        point.check(DATA)
