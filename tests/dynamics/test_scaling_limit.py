"""The limit in steps, the parts of a path, and orders, against plain loops and matrix functions."""

from itertools import combinations, pairwise

import jax
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.linalg import expm

from corollary.dynamics import (
    cadlag_modulus,
    kernel_sgd,
    martingale_variance,
    outer_weight_bound,
    path_parts,
    predictable_variation,
    stochastic_order,
)

RNG = np.random.default_rng(0)
PHI, Y, START = RNG.normal(size=(3, 5)), RNG.normal(size=3), RNG.normal(size=3)
K = PHI @ PHI.T
ORDER = RNG.integers(0, 3, 15)


def test_kernel_sgd_is_sgd_of_a_linear_model():
    path = kernel_sgd(K, Y, 0.05, ORDER)
    theta = np.zeros(5)
    for k, i in enumerate(ORDER):
        np.testing.assert_allclose(path[k], PHI @ theta, atol=1e-12)
        theta = theta + 0.05 * (Y[i] - PHI[i] @ theta) * PHI[i]
    np.testing.assert_allclose(path[-1], PHI @ theta, atol=1e-12)
    np.testing.assert_allclose(kernel_sgd(K, Y, 0.05, ORDER, start=START)[0], START)


def test_parts_of_a_path_of_a_linear_model_have_no_remainder():
    outputs = kernel_sgd(K, Y, 0.05, ORDER, start=START)
    first = np.broadcast_to(PHI[:, :2] @ PHI[:, :2].T, (16, 3, 3))
    parts = path_parts(outputs, first, K - first, Y, ORDER, 0.05)
    np.testing.assert_allclose(sum(parts), outputs - START, atol=1e-12)
    np.testing.assert_allclose(parts.remainder, 0, atol=1e-13)
    drift = np.cumsum(0.05 / 3 * (Y - np.asarray(outputs[:-1])) @ K, 0)
    np.testing.assert_allclose(parts.drift[1:], drift, atol=1e-12)
    # the martingale of one step, averaged over the example that it may see, is nothing
    steps = [path_parts(outputs[:2], first[:2], K - first[:2], Y, [i], 0.05) for i in range(3)]
    for name in ("outer_martingale", "inner_martingale"):
        np.testing.assert_allclose(sum(getattr(s, name)[1] for s in steps), 0, atol=1e-14)
    i = 1
    np.testing.assert_allclose(
        steps[i].outer_martingale[1],
        0.05 * ((Y - START)[i] * first[0, :, i] - first[0] @ (Y - START) / 3),
        atol=1e-14,
    )


def test_variation_is_the_mean_square_of_the_step_that_may_come():
    outputs, kernels = RNG.normal(size=(2, 3)), RNG.normal(size=(2, 3, 3))
    steps = [path_parts(outputs, kernels, 0 * kernels, Y, [i], 0.05).outer_martingale[1] for i in range(3)]
    np.testing.assert_allclose(
        predictable_variation(outputs, kernels, Y, 0.05)[1], np.mean(np.square(steps), 0), rtol=1e-12
    )
    path = predictable_variation(np.r_[outputs, outputs[:1]], np.r_[kernels, kernels[:1]], Y, 0.05)
    alone = predictable_variation(outputs[::-1], kernels[::-1], Y, 0.05)[1]
    np.testing.assert_allclose(path[2] - path[1], alone, rtol=1e-12)


def test_martingale_variance_against_scipy():
    covariance, part = PHI[:, :3] @ PHI[:, :3].T, PHI[:, :2] @ PHI[:, :2].T
    found = martingale_variance(K, covariance, Y, 0.7, 2.0, part=part)

    def density(s, point):
        left = expm(-0.7 / 3 * s * K)
        miss = left @ (np.outer(Y, Y) + covariance) @ left.T
        terms = part[point][:, None] * miss * part[point]
        return 0.7**2 * (np.trace(terms) / 3 - terms.sum() / 9)

    np.testing.assert_allclose(found, [quad(density, 0, 2, args=(p,))[0] for p in range(3)], rtol=1e-8)
    np.testing.assert_allclose(
        martingale_variance(K, covariance, Y, 0.7, 2.0), martingale_variance(K, covariance, Y, 0.7, 2.0, part=K)
    )


def test_outer_weight_bound_of_nothing_learned_is_the_start():
    start = RNG.normal(size=6)
    np.testing.assert_allclose(outer_weight_bound(start, 6, 1.0, 0.0), np.abs(start))
    a, size = 0.5 * 1.2 * 0.8 * 2 / np.sqrt(6), np.abs(start).mean()
    found = outer_weight_bound(start, 6, 0.5, 2.0, activation_bound=1.2, label_bound=0.8)
    np.testing.assert_allclose(found, np.abs(start) + a + (size + a) * (np.exp(0.5 * 1.44 * 2) - 1))


@pytest.mark.parametrize("gap", [0, 1, 2, 3, 9])
def test_modulus_against_all_partitions(gap):
    path = RNG.normal(size=9)

    def swing(cuts):
        return max(np.ptp(path[a:b]) for a, b in pairwise((0, *cuts, 9)))

    legal = [
        cuts
        for r in range(9)
        for cuts in combinations(range(1, 9), r)
        if all(b - a > gap for a, b in pairwise((0, *cuts)))
    ]
    np.testing.assert_allclose(cadlag_modulus(path, gap), min(map(swing, legal)), rtol=1e-14)


def test_modulus_of_steps_that_last():
    assert cadlag_modulus(np.repeat([0.0, 3.0, 1.0], 4), 3) == 0
    # now the first interval must reach into the second level, and then the rest may be one
    assert cadlag_modulus(np.repeat([0.0, 3.0, 1.0], 4), 4) == 3


def test_orders_of_means():
    widths = np.array([4, 16, 64, 256])
    gauss = np.stack([RNG.normal(size=(4000, n)).mean(1) for n in widths])
    cauchy = np.stack([RNG.standard_cauchy(size=(4000, n)).mean(1) for n in widths])
    # the 95 % quantile of 4000 samples is known to about 3 % (normal) and 9 % (Cauchy)
    assert abs(stochastic_order(gauss, widths, widths**-0.5).slope) < 0.03
    assert stochastic_order(gauss, widths, widths**-0.6).slope > 0.07
    assert abs(stochastic_order(cauchy, widths, np.ones(4)).slope) < 0.1
    found = stochastic_order(gauss, widths, np.ones(4), levels=(0.5,))
    np.testing.assert_allclose(found.quantiles[:, 0], np.median(np.abs(gauss), 1))


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: kernel_sgd(K, Y[:2], 0.1, ORDER), r"y must have shape \(n,\) with n = 3, got \(2,\)"),
        (lambda: kernel_sgd(K, Y, 0.0, ORDER), "step must be positive, got 0.0"),
        (lambda: kernel_sgd(K, Y, 0.1, [3]), "order must hold labels from 0 to 2, got 3"),
        (
            lambda: path_parts(np.ones((4, 3)), np.ones((4, 3, 3)), np.ones((3, 3, 3)), Y, [0] * 3, 0.1),
            "inner_parts must",
        ),
        (
            lambda: path_parts(np.ones((4, 3)), np.ones((4, 3, 3)), np.ones((4, 3, 3)), Y, [0] * 4, 0.1),
            "order must have",
        ),
        (lambda: predictable_variation(np.ones((4, 3)), np.ones((3, 3, 3)), Y, 0.1), "part must have shape"),
        (lambda: predictable_variation(np.ones((4, 3)), np.ones((4, 3, 3)), Y, 0.0), "step must be positive, got 0.0"),
        (lambda: martingale_variance(K, K, Y, 1.0, -1.0), "time must be zero or more, got -1.0"),
        (lambda: martingale_variance(K, K, Y, 1.0, 1.0, nodes=1), "nodes must be at least 2, got 1"),
        (lambda: outer_weight_bound(Y, 3, 1.0, 1.0, label_bound=0.0), "label_bound must be positive, got 0.0"),
        (lambda: cadlag_modulus(np.ones((2, 2)), 1), r"path must have shape \(t,\), got \(2, 2\)"),
        (lambda: cadlag_modulus(np.ones(3), -1), "gap must be at least 0, got -1"),
        (lambda: stochastic_order(np.ones((1, 5)), [4], [1.0]), "widths must hold at least two widths, got 1"),
        (lambda: stochastic_order(np.ones((2, 5)), [4, 8], [1.0, 0.0]), "beta must be positive, got 0.0"),
        (
            lambda: stochastic_order(np.ones((2, 5)), [4, 8], [1, 1], levels=(1.0,)),
            r"levels must be in \(0, 1\), got 1.0",
        ),
    ],
)
def test_bad_arguments(call, sentence):
    with pytest.raises((TypeError, ValueError), match=sentence):
        call()


def test_everything_runs_in_a_trace():
    out = jax.jit(jax.vmap(lambda s: kernel_sgd(K, Y, 0.05, ORDER, start=s)))(np.stack([START, Y]))
    np.testing.assert_allclose(out[1], np.broadcast_to(Y, (16, 3)), atol=1e-13)
