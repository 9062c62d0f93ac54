import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import signal

from corollary.optimization import (
    abel_mean,
    cesaro_means,
    decaying_maximum,
    exponential_moving_average,
    laplace_mean,
    laplace_mean_of_averages,
    moving_average_weights,
    power_average,
    rates,
)

RNG = np.random.default_rng(2)
XI = RNG.normal(size=(50, 3))


def test_moving_average_is_a_filter():
    expected = signal.lfilter([0.2], [1.0, -0.8], XI, axis=0)
    np.testing.assert_allclose(exponential_moving_average(XI, 0.8), expected, rtol=1e-12)
    share = 1 - 0.8 ** np.arange(1, 51)[:, None]
    corrected = exponential_moving_average(XI, 0.8, bias_correction=True)
    np.testing.assert_allclose(corrected, expected / share, rtol=1e-12)
    started = exponential_moving_average(XI, 0.8, initial=2.0)
    np.testing.assert_allclose(started, expected + 2 * (1 - share), rtol=1e-12)


def test_weights():
    w = np.asarray(moving_average_weights(50, 0.8))
    np.testing.assert_allclose(w @ XI, exponential_moving_average(XI, 0.8)[-1], rtol=1e-12)
    assert w.sum() == pytest.approx(1 - 0.8**50)
    assert float(moving_average_weights(7, 0.8, bias_correction=True).sum()) == pytest.approx(1, abs=1e-14)


def test_means():
    np.testing.assert_allclose(cesaro_means(XI)[9], XI[:10].mean(0), rtol=1e-12)
    expected = sum(0.1 * 0.9**n * XI[n] for n in range(50))
    np.testing.assert_allclose(abel_mean(XI, 0.9), expected, rtol=1e-12)


@pytest.mark.parametrize("rate", [0.1, 1.0, 3.0])
def test_laplace_means(rate):
    # the Laplace transforms of exp(-2t) and of t -> cos t
    assert float(laplace_mean(lambda t: jnp.exp(-2 * t), rate)) == pytest.approx(rate / (rate + 2), abs=1e-12)
    assert float(laplace_mean(jnp.cos, rate)) == pytest.approx(rate**2 / (rate**2 + 1), abs=1e-12)
    average = laplace_mean_of_averages(lambda t: jnp.sin(t) / t, rate)
    assert float(average) == pytest.approx(rate**2 / (rate**2 + 1), abs=1e-12)


def test_power_average_and_its_limit():
    g = RNG.normal(size=(6, 4))
    for p in (1.0, 2.0, 7.0):
        total = sum((1 - 0.9**p) * 0.9 ** (p * (5 - i)) * (np.abs(g[i]) ** p).sum() for i in range(6))
        assert float(power_average(g, 0.9, p)[-1]) == pytest.approx(total ** (1 / p), rel=1e-12)
    largest = max(0.9 ** (5 - i) * np.abs(g[i]).max() for i in range(6))
    assert float(decaying_maximum(g, 0.9)[-1]) == pytest.approx(largest, rel=1e-14)
    assert float(power_average(g, 0.9, 1e5)[-1]) == pytest.approx(largest, rel=1e-4)


def test_a_zero_gradient_counts_as_nothing():
    g = np.array([[1.0, 0.0], [0.0, 0.0]])
    np.testing.assert_allclose(power_average(g, 0.5, 2.0) ** 2, [0.75, 0.75 / 4], rtol=1e-12)


def test_they_map_and_differentiate():
    deltas = jnp.array([0.5, 0.9])
    np.testing.assert_allclose(
        jax.vmap(lambda d: abel_mean(XI[:, 0], d))(deltas), [abel_mean(XI[:, 0], d) for d in (0.5, 0.9)], rtol=1e-12
    )
    slope = jax.grad(lambda xi: exponential_moving_average(xi, 0.8)[-1])(jnp.asarray(XI[:, 0]))
    np.testing.assert_allclose(slope, moving_average_weights(50, 0.8), rtol=1e-12)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: exponential_moving_average(1.0, 0.5), "xi must have a first axis"),
        (lambda: exponential_moving_average(XI, 1.0), r"delta must be in \(0, 1\)"),
        (lambda: exponential_moving_average(XI, 0.5, initial=1.0, bias_correction=True), "initial must be zero"),
        (lambda: moving_average_weights(0, 0.5), "n must be at least 1"),
        (lambda: cesaro_means([]), "xi must have a first axis"),
        (lambda: abel_mean([np.inf], 0.5), "xi must be finite"),
        (lambda: laplace_mean(1.0, 0.5), "f must be a function of time"),
        (lambda: laplace_mean(jnp.sin, 0.0), "rate must be positive"),
        (lambda: laplace_mean_of_averages(jnp.sin, 1.0, panels=0), "panels must be at least 1"),
        (lambda: laplace_mean_of_averages(None, 1.0), "average must be a function of time"),
        (lambda: power_average(XI, 0.5, 0.5), "p must be at least 1"),
        (lambda: decaying_maximum(XI[0], 0.5), r"gradients must have shape \(k, d\)"),
        (lambda: rates.adagrad.harmonic(0.0, 1.0), "total must be positive"),
        (lambda: rates.adagrad.harmonic_offset(1.0, 0.0), "sigma must be positive"),
        (lambda: rates.adagrad.norm(1.0, 1.0, 1.0, 1.0, 0), "T must be at least 1"),
        (lambda: rates.adagrad.norm_in_advance(1.0, -1.0, 1.0, 1), "gap must be zero or more"),
        (lambda: rates.adagrad.diagonal(1.0, 1.0, 1.0, [-1.0], 1), "past must be zero or more"),
        (lambda: rates.adagrad.diagonal_weighted(0.0, 1.0, 1.0, [1.0]), "smoothness must be positive"),
        (lambda: rates.adam.adamax_step(0.9, 0.5, 1), "delta1 over delta2"),
        (lambda: rates.adam.adam_step(1.0, 0.5, 1), r"delta1 must be in \(0, 1\)"),
    ],
)
def test_bad_input(call, sentence):
    with pytest.raises((ValueError, TypeError), match=sentence):
        call()
