"""The limit equation against SciPy's integrator, stationary laws against eigenvectors, and fixed points."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

from corollary.reinforcement import FiniteMDP, irreducible, q_limit, stationary_law

RNG = np.random.default_rng(1)
P, R = RNG.dirichlet(np.ones(3), size=(3, 2)), RNG.normal(size=(3, 2))
ROOT = RNG.normal(size=(6, 6))
KERNEL = ROOT @ ROOT.T / 6 + np.eye(6)
POLICY = RNG.dirichlet(np.ones(2), size=3)


def problem():
    return FiniteMDP(P, R, 0.6)  # in double precision only inside a test


def law(policy):
    chain = np.einsum("xa,xaz->xz", policy, P)
    values, vectors = np.linalg.eig(chain.T)
    pi = vectors[:, np.argmax(values.real)].real
    return (pi / pi.sum())[:, None] * policy


def test_stationary_law_is_the_left_eigenvector():
    np.testing.assert_allclose(stationary_law(problem(), POLICY), law(POLICY), rtol=1e-10)
    np.testing.assert_allclose(stationary_law(problem()), law(np.full((3, 2), 0.5)), rtol=1e-10)


def test_irreducible():
    apart = np.repeat(np.eye(3)[:, None], 2, 1)
    circle = np.repeat(np.roll(np.eye(3), 1, 1)[:, None], 2, 1)
    one_way = np.repeat(np.array([[0.5, 0.5, 0], [0, 0.5, 0.5], [0, 0, 1]])[:, None], 2, 1)
    found = [bool(irreducible(FiniteMDP(p, R, 0.5))) for p in (P, apart, circle, one_way)]
    assert found == [True, False, True, False]


def test_against_an_integrator_of_scipy():
    start, times = RNG.normal(size=(3, 2)), np.array([0.0, 0.5, 2.0])
    pi = law(POLICY)

    def velocity(_, h):
        h = h.reshape(3, 2)
        miss = R + 0.6 * P @ h.max(1) - h
        return 1.3 * KERNEL @ (pi * miss).ravel()

    exact = solve_ivp(velocity, (0, 2), start.ravel(), t_eval=times, rtol=1e-10, atol=1e-12).y.T
    ours = q_limit(start, KERNEL, problem(), 1.3, times, policy=POLICY, substeps=200)
    # the maximum has kinks, at which the order of both methods drops
    np.testing.assert_allclose(ours.reshape(3, 6), exact, atol=1e-6)


def test_long_run_with_a_horizon_is_backward_induction():
    final = RNG.normal(size=3)
    run = jax.jit(
        lambda start: q_limit(start, KERNEL, problem(), 1.0, jnp.array([400.0]), horizon=3, final=final, substeps=4000)
    )
    end = run(jnp.zeros((3, 3, 2)))[0]
    np.testing.assert_allclose(end, problem().backward_induction(3, final=final)[:3], atol=1e-8)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"start": np.zeros(6)}, "start must have shape"),
        ({"kernel": np.eye(5)}, "kernel must have shape"),
        ({"times": np.array([1.0, 0.5])}, "times must increase"),
        ({"times": np.array([-1.0])}, "times must be zero or more"),
        ({"eta": 0.0}, "eta must be positive"),
        ({"mdp": None}, "mdp must be a FiniteMDP"),
    ],
)
def test_sentences(change, match):
    given = {"start": np.zeros((3, 2)), "kernel": KERNEL, "mdp": problem(), "eta": 1.0, "times": np.ones(1)}
    with pytest.raises((ValueError, TypeError), match=match):
        q_limit(**given | change)
