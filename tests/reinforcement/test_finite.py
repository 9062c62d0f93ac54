import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import linprog

from corollary.reinforcement import FiniteMDP, all_policies

KEY = jax.random.key(0)
P = np.asarray(np.random.default_rng(0).dirichlet(np.ones(4), (4, 3)))
R = np.random.default_rng(1).normal(size=(4, 3))


def made(beta=0.9):
    return FiniteMDP(P, R, beta)


def test_iterations_against_the_linear_program():
    mdp = made()
    # least v with v >= r + βpv for every action
    rows = np.concatenate([0.9 * P[:, a] - np.eye(4) for a in range(3)])
    best = linprog(np.ones(4), rows, -np.concatenate([R[:, a] for a in range(3)]), bounds=(None, None)).x
    found, other = jax.jit(lambda mdp: (mdp.q_iteration(), mdp.policy_iteration()))(mdp)
    np.testing.assert_allclose(found.q.max(1), best, rtol=1e-9)
    np.testing.assert_allclose(other.q, found.q, rtol=1e-12)
    np.testing.assert_array_equal(other.policy, found.policy)
    every = mdp.enumerate_policies()
    assert every.shape == (81, 4)
    assert len(np.unique(every, axis=0)) == 81
    values = jax.jit(jax.vmap(mdp.evaluate))(every)
    np.testing.assert_allclose(values.max(0), best, rtol=1e-9)


def test_a_discount_of_zero_is_the_reward_of_one_step():
    found = made(0.0).q_iteration()
    np.testing.assert_array_equal(found.q, R)


def test_the_value_of_a_random_policy_and_its_occupancy():
    mdp, law = made(), np.random.default_rng(2).dirichlet(np.ones(3), 4)
    chain, rewards = np.einsum("xa,xaz->xz", law, P), (law * R).sum(1)
    series = sum(0.9**j * np.linalg.matrix_power(chain, j) for j in range(400))
    np.testing.assert_allclose(mdp.evaluate(law), series @ rewards, rtol=1e-10)
    start = np.array([0.1, 0.2, 0.3, 0.4])
    occupancy = mdp.occupancy(law, start)
    np.testing.assert_allclose(occupancy, 0.1 * (start @ series)[:, None] * law, rtol=1e-10)
    np.testing.assert_allclose(mdp.occupancy(law).sum(), 1.0)


def test_backward_induction_against_a_tree():
    rewards, final = np.random.default_rng(3).normal(size=(3, 4, 3)), np.arange(4.0)

    def value(j, x):
        return final[x] if j == 3 else max(worth(j, x, a) for a in range(3))

    def worth(j, x, a):
        return rewards[j, x, a] + sum(P[x, a, z] * value(j + 1, z) for z in range(4))

    found = made().backward_induction(3, r=rewards, final=final, beta=1.0)
    assert found.shape == (4, 4, 3)
    np.testing.assert_allclose(found[0], [[worth(0, x, a) for a in range(3)] for x in range(4)])
    np.testing.assert_array_equal(found[3, :, 0], final)


def test_a_run_has_the_frequencies_of_the_law():
    states, actions = made().simulate(np.full((4, 3), 1 / 3), 20_000, start=2, key=KEY)
    assert states[0] == 2
    counts = np.zeros((4, 3, 4))
    np.add.at(counts, (states[:-1], actions, states[1:]), 1)
    visits = counts.sum(2)
    spread = 5 / np.sqrt(4 * visits.min())
    assert np.abs(counts / visits[..., None] - P).max() < spread
    assert np.abs(visits / visits.sum(1, keepdims=True) - 1 / 3).max() < spread


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: FiniteMDP(P * 0.9, R, 0.5), r"sum to one, but p\[0, 0\] sums to 0\.9"),
        (lambda: FiniteMDP(-P, R, 0.5), "p must be zero or more"),
        (lambda: FiniteMDP(P[:3], R[:3], 0.5), "as many next states as states"),
        (lambda: FiniteMDP(P, R[:, :2], 0.5), r"r must have shape \(x, a\)"),
        (lambda: FiniteMDP(P, R, 1.0), r"beta must be in \[0, 1\), got 1.0"),
        (lambda: FiniteMDP(P, R, -0.1), r"beta must be in \[0, 1\)"),
        (lambda: made().evaluate([0, 1, 2, 3]), "labels from 0 to 2, got 3 at index 3"),
        (lambda: made().evaluate(R), "policy must be zero or more"),
        (lambda: made().backward_induction(0), "horizon must be at least 1"),
        (lambda: made().backward_induction(1, beta=1.5), "beta must be in"),
        (lambda: made().simulate([0, 0, 0, 0], 3, start=4, key=KEY), "start must hold labels from 0 to 3"),
        (lambda: all_policies(30, 3), r"3\^30 policies"),
    ],
)
def test_bad_input(call, sentence):
    with pytest.raises((TypeError, ValueError), match=sentence):
        call()


def test_many_problems_are_solved_at_once():
    betas = jnp.array([0.1, 0.5, 0.9])
    found = jax.jit(jax.vmap(lambda beta: FiniteMDP(P, R, beta).policy_iteration().q))(betas)
    for beta, q in zip(betas, found, strict=True):
        np.testing.assert_allclose(q, R + beta * P @ q.max(1), rtol=1e-12)
