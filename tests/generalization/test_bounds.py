"""The table of bounds: its rows, the measured gap and its exact interval, and what it refuses."""

import importlib
from functools import partial
from types import SimpleNamespace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import binomtest

from corollary import Network
from corollary.generalization import bounds as with_certificate
from corollary.generalization import norm_margin_bound, pac_bayes, quantise, spectral_margin_bound
from corollary.generalization.bound import samples_to_reach
from corollary.generalization.bounds import BOUNDS, LEVELS
from corollary.network import BatchLoss

KEY = jax.random.key(0)
PAC_BAYES = "PAC-Bayes, of a stochastic network"
# what a certificate adds has its own test
bounds = partial(with_certificate, steps=0)
RNG = np.random.default_rng(0)
X, T = RNG.normal(size=(40, 3)), RNG.normal(size=(25, 3))
Y, U = (X[:, 0] > 0).astype(int), (T[:, 0] > 0.3).astype(int)


@pytest.fixture
def network():
    return Network(lambda w, x: jnp.stack([jnp.zeros(()), w @ x]), jnp.array([1.0, 0.1, 0.0]))


@pytest.fixture
def dense():
    return eqx.nn.MLP(3, 2, 8, 1, key=KEY)


def test_rows_are_the_bounds_by_themselves(dense):
    table = bounds(dense, "cross_entropy", (X, Y), delta=0.1, key=KEY)
    assert {row.name for row in table.rows} == set(BOUNDS)
    values = [row.value for row in table.rows if row.name != PAC_BAYES]
    assert values == sorted(values)
    found = {row.name: row for row in table.rows}
    np.testing.assert_allclose(
        found["spectral norms and margin"].value, spectral_margin_bound(dense, (X, Y), 0.1).value, rtol=1e-12
    )
    np.testing.assert_allclose(
        found["Frobenius norms and margin"].value, norm_margin_bound(dense, (X, Y), 0.1).value, rtol=1e-12
    )
    risk = np.mean(np.asarray(jax.vmap(dense)(jnp.asarray(X))).argmax(1) != Y)
    nats = 64 * (3 * 8 + 8 + 8 * 2 + 2) * np.log(2) + np.log(10)
    np.testing.assert_allclose(found["networks of so many bits"].value, risk + np.sqrt(nats / 80), rtol=1e-12)
    for row in table.rows:
        if row.name == PAC_BAYES:
            continue
        row.bound.check()
        np.testing.assert_allclose(sum(row.terms.values()), row.value, rtol=1e-12)
        assert row.vacuous == (row.value >= 1)
    assert "(vacuous)" in repr(table)


def test_the_best_number_of_levels_is_taken(dense):
    table = bounds(dense, "cross_entropy", (X, Y), key=KEY)
    row = next(row for row in table.rows if row.name == "compression, of the rounded network")
    each = [float(quantise(dense, levels).bound((X, Y), 0.05).value) for levels in LEVELS]
    np.testing.assert_allclose(row.value, min(each), rtol=1e-12)


def test_what_a_bound_would_need(dense):
    table = bounds(dense, "cross_entropy", (X, Y), key=KEY)
    row = next(row for row in table.rows if row.name == "networks of so many bits")
    nats, risk = 64 * 50 * np.log(2) + np.log(20), table.measured.train
    assert risk + np.sqrt(nats / (2 * row.examples)) < 1 <= risk + np.sqrt(nats / (2 * (row.examples - 1)))
    assert f"{row.examples:,}" in row.need


def test_the_measured_gap_has_its_exact_interval(network):
    table = bounds(network, "cross_entropy", (X, Y), test=(T, U), delta=0.05, key=KEY)
    wrong = (np.asarray(T @ np.array([1.0, 0.1, 0.0])) > 0) != (U == 1)
    train = np.mean(((X @ np.array([1.0, 0.1, 0.0])) > 0) != (Y == 1))
    exact = binomtest(int(wrong.sum()), 25).proportion_ci(0.95, method="exact")
    np.testing.assert_allclose(table.measured.gap, wrong.mean() - train, atol=1e-12)
    np.testing.assert_allclose(table.measured.interval, [exact.low - train, exact.high - train], atol=1e-9)
    assert "gap" in repr(table)


def test_bounds_that_do_not_apply_say_why(network):
    table = bounds(network, "cross_entropy", (X, Y), key=KEY)
    found = {row.name: row for row in table.rows}
    other = found["spectral norms and margin"]
    assert other.value is None
    assert other.terms == {}
    assert other.need.startswith("It is for dense layers with ReLU between them:")
    assert [row.name for row in table.rows if row.value is None] == [
        "VC dimension",
        "Frobenius norms and margin",
        "spectral norms and margin",
        PAC_BAYES,
    ]
    three = bounds(eqx.nn.MLP(3, 3, 4, 1, key=KEY), "cross_entropy", (X, Y), key=KEY)
    vc = next(row for row in three.rows if row.name == "VC dimension")
    assert vc.need == "The VC dimension is that of two classes, the network has 3."


MANY = RNG.normal(size=(120, 3))
LABELS = (MANY[:, 0] > 0).astype(int)
START = eqx.nn.MLP(3, 2, 8, 1, key=jax.random.key(7))


@pytest.mark.parametrize("initial", [START, None])
def test_the_certificate_is_that_of_pac_bayes(dense, initial):
    table = with_certificate(dense, "cross_entropy", (MANY, LABELS), initial=initial, steps=40, delta=0.1, key=KEY)
    prior = 0.5 if initial is None else "initial"
    # the same bits as there: training follows the last of them
    options = {"prior": prior, "delta": 0.1 * (1 - 0.2), "delta_draws": 0.1 * 0.2, "steps": 40, "key": KEY}
    alone = pac_bayes(dense, "cross_entropy", (MANY, LABELS), initial=initial, **options)
    row = next(row for row in table.rows if row.name == PAC_BAYES)
    np.testing.assert_allclose(row.value, alone.value, rtol=1e-12)
    assert row.terms.keys() == alone.terms.keys()
    assert table.certificate.check((MANY, LABELS)) is table.certificate
    np.testing.assert_allclose(float(table.certificate.bound.delta), 0.1, rtol=1e-12)
    assert not row.vacuous
    # with the same errors and the same distance fewer examples say less
    assert row.examples <= 120


def test_a_certificate_that_is_none_says_why(dense):
    def need(**options):
        table = with_certificate(dense, "cross_entropy", (MANY, LABELS), key=KEY, **options)
        assert table.certificate is None
        return next(row for row in table.rows if row.name == PAC_BAYES).need

    assert "ask for it with steps=2000" in need(steps=0)
    assert need(initial=dense, steps=1).startswith("Initial must be the network before it was trained")
    with pytest.raises(ValueError, match="structure of the network"):
        need(initial=eqx.nn.Linear(3, 2, key=KEY), steps=1)


def test_large_networks_are_certified_only_when_asked(dense, monkeypatch):
    monkeypatch.setattr(importlib.import_module("corollary.generalization.bounds"), "CHEAP", 10)
    table = with_certificate(dense, "cross_entropy", (X, Y), key=KEY)
    assert table.certificate is None


def test_as_many_examples_as_no_whole_number_of_32_bits_counts():
    """In single precision the search for the examples that a bound needs goes beyond 2^31."""
    with jax.enable_x64(False):
        deep = eqx.nn.MLP(3, 2, 32, 5, key=KEY)
        table = bounds(deep, "cross_entropy", (X.astype(np.float32), Y), key=KEY)
    assert max(row.examples or 0 for row in table.rows) > 2**31


@pytest.mark.parametrize(
    ("loss", "data", "options", "sentence"),
    [
        ("squared", (X, X[:, :2]), {}, "data must have class labels .*, got targets of a regression under the loss"),
        ("cross_entropy", (X[:5], Y[:5]), {}, "data must hold at least 8 examples for a bound, got 5"),
        ("cross_entropy", (X, Y), {"delta": 0.0}, "delta must be in .0, 1., got 0"),
        ("cross_entropy", (X, Y), {"test": (T, T[:, 0])}, "test must have class labels"),
        (BatchLoss(lambda network, batch: 0.0), (X, Y), {}, "bounds needs the loss of every example on its own"),
        ("entropy", (X, Y), {}, "loss must be one of"),
    ],
)
def test_bad_input_is_one_sentence(dense, loss, data, options, sentence):
    with pytest.raises((ValueError, TypeError), match=sentence):
        bounds(dense, loss, data, key=KEY, **options)


def test_a_certificate_far_from_its_prior_says_how_many_examples_it_needs():
    with jax.enable_x64(False):
        terms = dict(kl=jnp.float32(1e9), choices=0.0, delta=jnp.float32(0.03), delta_draws=jnp.float32(0.005))
        certified = SimpleNamespace(fraction=0, errors=jnp.float32(12_000), draws=100, **terms)
        at = BOUNDS[PAC_BAYES](SimpleNamespace(n=400, certified=certified))
        assert float(at(400).value) == 1
        n = samples_to_reach(at, 0.9)
        assert n > 2**28
        assert float(at(2**40).value) < 0.4
