"""Momentum: heavy ball, Nesterov's acceleration, and MaSS for stochastic gradients."""

import jax.numpy as jnp
import numpy as np
import pytest

from corollary.optimization import (
    bent_line,
    best_contraction,
    contraction,
    convex_momentum,
    coordinate_least_squares,
    damped_oscillator,
    heavy_ball,
    heavy_ball_matrix,
    heavy_ball_of_flow,
    mass,
    mass_parameters,
    nesterov,
    nesterov_chain,
    nesterov_matrix,
    polyak_parameters,
    rates,
    sag,
    second_moment_matrix,
    spectral_radius_by_squaring,
    strongly_convex_momentum,
    svrg,
)


def test_choices_of_parameters():
    step, momentum = polyak_parameters(25.0, 1.0)
    np.testing.assert_allclose([step, momentum], [1 / 9, 4 / 9], rtol=1e-14)
    np.testing.assert_allclose(strongly_convex_momentum(jnp.array([1.0, 9.0, 1e10]), 1.0), [0, 0.5, 1], atol=1e-4)
    np.testing.assert_allclose(rates.momentum.heavy_ball_quadratic_distance(25.0, 1.0, 3.0, 1), 16 / 3)


def test_rates_by_hand():
    m = rates.momentum
    np.testing.assert_allclose(m.nesterov_convex(3.0, 2.0, jnp.array([1, 3])), [6.0, 1.5])
    np.testing.assert_allclose(m.nesterov_convex_tight(3.0, 2.0, jnp.array([1, 3])), [2.0, 0.8])
    np.testing.assert_allclose(m.nesterov_strongly_convex(4.0, 1.0, 3.0, 2.0, 2), 1.25)
    np.testing.assert_allclose(m.nesterov_quadratic_distance(4.0, 1.0, 3.0, 2), 1.5)
    np.testing.assert_allclose(m.heavy_ball_average(2.0, 3.0, 9, step=0.25, momentum=0.5), 2.0)
    np.testing.assert_allclose(m.heavy_ball_strongly_convex(2.0, 0.5, 3.0, 2, step=0.5), 1.6875)
    np.testing.assert_allclose(m.mass(8.0, 2.0, 3.0, 2), 1.6875)


BAD = {
    "step must be positive": [
        lambda: heavy_ball(0.0, 0.5), lambda: nesterov(-1.0), lambda: mass(0.0, 0.1, 0.1), lambda: sag(0.0),
        lambda: svrg(0.0, 3, option="last"),
        lambda: heavy_ball_matrix(0.0, 0.5, 1.0), lambda: nesterov_matrix(0.0, 0.5, 1.0),
        lambda: second_moment_matrix("mass", 0.0, 0.5, 1.0, share=0.5, fourth=3.0),
        lambda: contraction("mass", 0.0, 0.5, [1.0]),
    ],
    r"momentum must be in \[0, 1\]": [
        lambda: heavy_ball(0.1, 1.5), lambda: nesterov(0.1, -0.5), lambda: mass(0.1, 0.1, 2.0),
    ],
    "form must be one of": [lambda: heavy_ball(0.1, 0.5, form="x"), lambda: nesterov(0.1, 0.5, form="x")],
    "momentum must be a number in the shifted form": [lambda: nesterov(0.1, form="shifted")],
    "compensation must be zero or more": [lambda: mass(0.1, -0.1, 0.1)],
    "mu must be positive": [
        lambda: polyak_parameters(1.0, 0.0), lambda: strongly_convex_momentum(1.0, 0.0),
        lambda: rates.momentum.nesterov_quadratic_distance(1.0, 0.0, 1.0, 1), lambda: mass_parameters(1.0, 0.0, 2.0),
    ],
    "mu over L must be": [lambda: rates.momentum.nesterov_strongly_convex(1.0, 2.0, 1.0, 1.0, 1)],
    "mu over L1 must be": [lambda: mass_parameters(1.0, 2.0, 2.0)],
    "statistical_condition must be at least 1": [lambda: mass_parameters(1.0, 0.5, 0.5)],
    "condition must be at least 1": [lambda: rates.momentum.mass(0.5, 2.0, 1.0, 1)],
    "k must be at least 1": [
        lambda: rates.momentum.nesterov_convex(1.0, 1.0, 0), lambda: rates.momentum.nesterov_convex_tight(1.0, 1.0, 0),
    ],
    "k must be zero or more": [lambda: convex_momentum(-1)],
    "step times L over 1 - momentum": [
        lambda: rates.momentum.heavy_ball_average(1.0, 1.0, 1, step=0.6, momentum=0.5)
    ],
    "step times L must be": [lambda: rates.momentum.heavy_ball_strongly_convex(1.0, 0.1, 1.0, 1, step=1.1)],
    "friction must be positive": [
        lambda: heavy_ball_of_flow(0.0, 1.0, 0.1), lambda: damped_oscillator(1.0, 1.0, 0.0, 1.0, 1.0),
    ],
    "friction times spacing": [lambda: heavy_ball_of_flow(2.0, 1.0, 0.6)],
    "time must be zero or more": [lambda: damped_oscillator(1.0, 1.0, 1.0, 1.0, -1.0)],
    "start must have shape": [lambda: bent_line([1.0])],
    "dim must be at least 2": [lambda: nesterov_chain(1)],
    "curvatures must be positive": [
        lambda: coordinate_least_squares([1.0, 0.0]), lambda: best_contraction("sgd", [0.0]),
    ],
    "amplitude must be one of": [
        lambda: coordinate_least_squares([1.0], amplitude="x"),
        lambda: contraction("mass", 0.1, 0.1, [1.0], amplitude="x"),
    ],
    "method must be one of": [
        lambda: contraction("x", 0.1, 0.1, [1.0]), lambda: best_contraction("mass", [1.0]),
    ],
    "matrix must have shape": [lambda: spectral_radius_by_squaring(np.ones((2, 3)))],
    "inner must be at least 1": [lambda: svrg(0.1, 0, option="last")],
    "option must be one of": [lambda: svrg(0.1, 3, option="x")],
}  # fmt: skip


@pytest.mark.parametrize("sentence", BAD)
def test_bad_input(sentence):
    for call in BAD[sentence]:
        with pytest.raises(ValueError, match=sentence):
            call()
