"""Renewals of the target against the iteration in parameter space, and against its two ends."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.reinforcement import History, target_renewal, td_stability

RNG = np.random.default_rng(0)
N, FEATURES, BETA = 12, 4, 0.8
PHI, PHI2 = RNG.normal(size=(2, N, FEATURES))
PHI2 *= 1.3


class Linear(eqx.Module):
    theta: jax.Array

    def __call__(self, features):
        return features @ self.theta


def history(phi, phi2):
    no = np.zeros(len(phi), bool)
    return History(phi[:, None], np.zeros(len(phi), int), np.zeros(len(phi)), phi2[:, None], no, no)


NETWORK, MOVES = Linear(jnp.ones(FEATURES)), history(PHI, PHI2)


def outer(step, every):
    """The matrix of one round in parameter space: steps towards a target, taken one after the other."""
    out = np.eye(FEATURES)
    for _ in range(every):
        out = out - step / N * PHI.T @ (PHI @ out - BETA * PHI2)
    return out


@pytest.mark.parametrize("every", [1, 2, 7])
@pytest.mark.parametrize("step", [0.05, 0.6])
def test_radius_is_that_of_the_round_in_parameter_space(step, every):
    found = target_renewal(NETWORK, MOVES, BETA, step=step, every=every)
    radius = np.abs(np.linalg.eigvals(outer(step, every))).max()
    np.testing.assert_allclose([found.radius, found.per_step], [radius, radius ** (1 / every)], rtol=1e-10)


def test_its_two_ends():
    spectrum = td_stability(NETWORK, MOVES, BETA)
    one = target_renewal(NETWORK, MOVES, BETA, step=0.01)
    values = np.asarray(spectrum.eigenvalues)
    np.testing.assert_allclose(one.radius, np.abs(1 - 0.01 * values[np.abs(values) > 1e-9]).max(), rtol=1e-10)
    frozen = td_stability(NETWORK, MOVES, BETA, frozen=True)
    np.testing.assert_allclose(target_renewal(NETWORK, MOVES, BETA, step=0.5, every=3000).radius, frozen.radius)


def test_a_step_that_runs_away_and_directions_that_nothing_moves():
    assert np.isinf(target_renewal(NETWORK, MOVES, BETA, step=50.0, every=100).radius)
    still = target_renewal(NETWORK, history(PHI, PHI), 0.0, step=0.1, every=5)
    assert still.radius < 1
    # two features of which one is the same for all: K - K' vanishes there as the discount tends to 1
    same = history(np.ones((3, 1)), np.ones((3, 1)))
    assert target_renewal(Linear(jnp.ones(1)), same, 1 - 1e-15, step=0.1).radius == 0


@pytest.mark.parametrize(
    ("change", "sentence"),
    [({"step": 0.0}, "step must be positive"), ({"every": 0}, "every must be"), ({"beta": 1.0}, "beta must be in")],
)
def test_sentences(change, sentence):
    options = {"beta": 0.5, "step": 0.1} | change
    with pytest.raises((TypeError, ValueError), match=sentence):
        target_renewal(NETWORK, MOVES, options.pop("beta"), **options)
