"""The table of bounds: its rows, the measured gap and its exact interval, and what it refuses."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import binomtest

from corollary import Network
from corollary.generalization import bounds, norm_margin_bound, quantise, spectral_margin_bound
from corollary.generalization.bounds import BOUNDS, LEVELS
from corollary.network import BatchLoss

KEY = jax.random.key(0)
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
    values = [row.value for row in table.rows]
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
    ]
    three = bounds(eqx.nn.MLP(3, 3, 4, 1, key=KEY), "cross_entropy", (X, Y), key=KEY)
    vc = next(row for row in three.rows if row.name == "VC dimension")
    assert vc.need == "The VC dimension is that of two classes, the network has 3."


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
