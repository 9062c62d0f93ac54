"""Spectra of temporal-difference learning against the matrix in parameter space, simulations and closed forms."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary import Network
from corollary.dynamics import limit_kernel
from corollary.nets import MLP, relu, tanh
from corollary.reinforcement import History, TDStability, td_stability
from corollary.reinforcement._crossing import first_crossing
from corollary.reinforcement.stability import _flowing, transition_kernels

RNG = np.random.default_rng(0)


class Linear(eqx.Module):
    """Values linear in what a state is: `state` (actions, features)."""

    theta: jax.Array

    def __call__(self, state):
        return state @ self.theta


def history(observation, action, reward, following, terminated=None):
    no = np.zeros(len(action), bool)
    return History(observation, action, reward, following, no if terminated is None else terminated, no)


def moves(n, actions, features=3, end=0.2):
    return history(
        jnp.asarray(RNG.normal(size=(n, features))),
        jnp.asarray(RNG.integers(0, actions, n)),
        jnp.asarray(RNG.normal(size=n)),
        jnp.asarray(RNG.normal(size=(n, features))),
        jnp.asarray(RNG.random(n) < end),
    )


def in_parameter_space(network, given, beta):
    """The gradients of the values at the pairs, as two matrices (n, parameters)."""
    params, fixed = eqx.partition(network, eqx.is_inexact_array)
    flat, tree = jax.flatten_util.ravel_pytree(params)

    @jax.jit
    def rows(flat, state, action, following, ended):
        def value(flat, x, a):
            return eqx.combine(tree(flat), fixed)(x)[a]

        best = jax.vmap(lambda x: jnp.argmax(eqx.combine(tree(flat), fixed)(x)))(following)
        each = jax.vmap(jax.grad(value), (None, 0, 0))
        return each(flat, state, action), each(flat, following, best) * ~ended[:, None]

    return rows(flat, given.observation, given.action, given.next_observation, given.terminated)


def test_spectrum_is_that_of_the_matrix_in_parameter_space():
    network = MLP((3, 20, 17, 4), tanh, key=jax.random.key(1))  # 509 parameters
    given = moves(40, 4)
    phi, phi2 = map(np.asarray, in_parameter_space(network, given, 0.9))
    assert phi.shape[1] > 500
    full = np.linalg.eigvals(phi.T @ (phi - 0.9 * phi2) / 40)
    full = full[np.argsort(-np.abs(full))][:40]
    found = td_stability(network, given, 0.9)
    ours = np.asarray(found.eigenvalues)
    distances = np.abs(ours[:, None] - full)
    assert max(distances.min(0).max(), distances.min(1).max()) < 1e-8
    np.testing.assert_allclose(found.abscissa, np.max(-full.real), atol=1e-8)
    steps = 2 * full.real / np.abs(full) ** 2
    np.testing.assert_allclose(found.largest_step, max(steps.min(), 0), rtol=1e-6)


def simulated(phi, phi2, beta, times):
    """How fast a deviation grows under θ' = -Φᵀ(Φ - βΦ')θ/n in the end: Euler steps, the logarithm of the length."""

    def one(phi, phi2):
        n = phi.shape[0]
        generator = -phi.T @ (phi - beta * phi2) / n
        step = 0.05 / jnp.linalg.norm(generator)

        def advance(state, _):
            theta, length = state
            theta = theta + step * generator @ theta
            size = jnp.linalg.norm(theta)
            return (theta / size, length + jnp.log(size)), length

        start = phi.T @ jax.random.normal(jax.random.key(3), (n,))  # no part in directions that nothing moves
        _, lengths = jax.lax.scan(advance, (start / jnp.linalg.norm(start), 0.0), length=times)
        half = times // 2
        return (lengths[-1] - lengths[half]) / (step * (times - 1 - half))

    return jax.jit(jax.vmap(one))(phi, phi2)


def test_sign_of_the_abscissa_is_what_simulations_do_on_200_problems():
    problems, n, features = 200, 6, 4
    rng = np.random.default_rng(5)
    # features of the next pair that are larger than those now, so that about half of the problems are unstable
    phi, phi2 = rng.normal(size=(problems, n, features)), 1.4 * rng.normal(size=(problems, n, features))

    @jax.jit
    def looked_at(phi, phi2):
        def one(phi, phi2):
            given = history(phi[:, None], jnp.zeros(n, int), jnp.zeros(n), phi2[:, None])
            return td_stability(Linear(jnp.ones(features)), given, 0.9).abscissa

        return jax.lax.map(lambda a: one(*a), (phi, phi2))

    abscissa = np.asarray(looked_at(phi, phi2))
    growth = np.asarray(simulated(phi, phi2, 0.9, 20_000))
    clear = np.abs(abscissa) > 1e-3
    assert clear.sum() > 150
    assert 40 < (abscissa[clear] > 0).sum() < clear.sum() - 40
    assert (np.sign(abscissa[clear]) == np.sign(growth[clear])).all()


def one_state():
    r"""One state, two actions, features that are nearly one: M, Theorem 21.7 says nothing beyond β = 2/3."""
    xi = 0.3 * np.array([[1.0, 0.0], [np.sqrt(2) - 1, 0.05]])
    features = np.linalg.cholesky(np.asarray(limit_kernel(xi)))
    state = np.stack([features, features])
    return history(state, np.arange(2), np.array([1.0, 0.0]), state), features


def test_discount_at_which_one_state_breaks():
    given, features = one_state()
    start = Linear(jnp.asarray(np.linalg.solve(features, [1.0, np.sqrt(2) - 1])))
    found = td_stability(start, given, 0.8)
    np.testing.assert_allclose(found.critical_beta, 0.8316, atol=5e-5)
    # both moves lead to the first pair: the pair of eigenvalues crosses where the trace of K - βK' is 0
    k = features @ features.T
    np.testing.assert_allclose(found.critical_beta, np.trace(k) / (k[0, 0] + k[0, 1]), rtol=1e-6)
    assert found.stable
    assert not td_stability(start, given, 0.85).stable
    assert "critical_beta=0.8316" in repr(found)


def test_one_feature_is_the_textbook_instance():
    # θ to 2θ: λ = 1 - 2β, unstable beyond 1/2; a frozen target multiplies the error by 2β
    given = history(np.ones((1, 1, 1)), np.zeros(1, int), np.zeros(1), np.full((1, 1, 1), 2.0))
    network = Linear(jnp.ones(1))
    stable, unstable = (td_stability(network, given, beta) for beta in (0.3, 0.8))
    np.testing.assert_allclose([stable.abscissa, unstable.abscissa], [-0.4, 0.6], rtol=1e-12)
    np.testing.assert_allclose([stable.critical_beta, unstable.critical_beta], 0.5, atol=1e-6)
    np.testing.assert_allclose([stable.largest_step, unstable.largest_step], [5.0, 0.0], rtol=1e-12)
    outer = td_stability(network, given, 0.3, frozen=True)
    np.testing.assert_allclose([outer.radius, outer.critical_beta, outer.largest_step], [0.6, 0.5, 2.0], rtol=1e-12)
    np.testing.assert_allclose(outer.abscissa, np.log(0.6), rtol=1e-12)


def test_no_discount_breaks_what_has_a_feature_per_pair():
    state = np.eye(3)[:, None]
    given = history(state, np.zeros(3, int), np.zeros(3), state[[1, 2, 0]])
    found = td_stability(Linear(jnp.ones(3)), given, 0.99)
    # the rotation by thirds: λ = (1 - β exp(2πik/3)) / 3
    roots = (1 - 0.99 * np.exp(2j * np.pi * np.arange(3) / 3)) / 3
    np.testing.assert_allclose(np.sort(found.eigenvalues.imag), np.sort(roots.imag), atol=1e-12)
    assert found.stable
    assert np.isinf(found.critical_beta)


def test_values_without_a_gradient_do_not_move():
    given = history(np.zeros((2, 1, 3)), np.zeros(2, int), np.ones(2), np.zeros((2, 1, 3)))
    for frozen in (False, True):
        found = td_stability(Linear(jnp.ones(3)), given, 0.9, frozen=frozen)
        assert found.radius == 0
        assert np.isinf(found.largest_step)
        assert np.isinf(found.critical_beta)


def test_frozen_target_against_repeated_least_squares():
    network, given = MLP((3, 5, 2), tanh, key=jax.random.key(2)), moves(12, 2, end=0.0)
    phi, phi2 = map(np.asarray, in_parameter_space(network, given, 0.5))
    # a target that is fitted by the least change of the parameters, and replaced
    outer = np.eye(phi.shape[1]) - np.linalg.pinv(phi) @ (phi - 0.5 * phi2)
    found = td_stability(network, given, 0.5, frozen=True)
    values = np.linalg.eigvals(np.linalg.pinv(phi) @ phi @ outer)
    np.testing.assert_allclose(found.radius, np.abs(values).max(), rtol=1e-7)


def test_reduction_to_the_directions_that_count_changes_nothing():
    # 150 transitions with 9 features: a rank that the reduction finds
    phi, phi2 = RNG.normal(size=(2, 150, 9))
    k, k2 = phi @ phi.T, phi2 @ phi.T
    found = _flowing(jnp.asarray(k), jnp.asarray(k2), jnp.asarray(0.9))
    full = np.linalg.eigvals(phi.T @ (phi - 0.9 * phi2) / 150)
    ours = np.asarray(found.eigenvalues)
    assert ours.shape == (150,)
    largest = ours[np.argsort(-np.abs(ours))][:9]
    assert np.abs(largest[:, None] - full).min(1).max() < 1e-10
    np.testing.assert_allclose(found.abscissa, np.max(-full.real), atol=1e-10)


@pytest.mark.parametrize(("n", "act"), [(60, relu), (100, tanh)])
def test_discount_is_where_the_largest_rate_passes_rounding(n, act):
    # full rank, with many curves near zero: the largest rate has kinks, and is flat on one side
    network = MLP((3, 30, 30, 2), act, key=jax.random.key(4))
    k, k2 = map(np.asarray, transition_kernels(network, moves(n, 2, end=0.0), 2))
    neutral = n * np.finfo(float).eps * (np.linalg.norm(k) + np.linalg.norm(k2)) / n
    critical = float(_flowing(jnp.asarray(k), jnp.asarray(k2), jnp.asarray(0.9)).critical_beta)

    def rate(beta):
        return -np.linalg.eigvals((k - beta * k2) / n).real.min()

    assert 0 < critical < 1
    assert rate(critical - 1e-6) <= neutral < rate(critical + 1e-6)


def test_search_that_meets_a_branch():
    # 0.1 (0.6 - β) ± √(0.04 (β - 0.8)): two real eigenvalues, both unstable, meet at 0.8; as a pair they cross at 0.6
    a = jnp.asarray([[0.06, -0.8, 0.0], [0.04, 0.06, 0.0], [0.0, 0.0, 1.0]])
    b = jnp.asarray([[0.1, -1.0, 0.0], [0.0, 0.1, 0.0], [0.0, 0.0, 0.0]])
    rate = jnp.asarray(1e-12)

    def fastest(beta):
        values = jnp.linalg.eigvals(a - beta * b)
        at = jnp.argmin(values.real)
        return -values.real[at] - rate, values[at]

    found = first_crossing(fastest, a, b, rate, jnp.asarray(0.5), jnp.asarray(1.0), fastest(1.0)[1])
    np.testing.assert_allclose(found, 0.6, atol=1e-6)


def test_networks_of_other_kinds_and_states_as_trees():
    def apply(params, state):
        return state["here"] @ params["w"] + state["there"] * params["b"]

    params = {"w": jnp.asarray(RNG.normal(size=(3, 2))), "b": jnp.asarray(RNG.normal(size=2))}
    state = {"here": RNG.normal(size=(7, 3)), "there": RNG.normal(size=7)}
    given = history(state, RNG.integers(0, 2, 7), np.zeros(7), state)
    found = td_stability(Network(apply, params), given, 0.5)
    assert isinstance(found, TDStability)
    assert found.eigenvalues.shape == (7,)


@pytest.mark.parametrize(
    ("change", "options", "match"),
    [
        ({}, {"beta": 1.0}, "beta must be in"),
        ({}, {"beta": -0.1}, "beta must be in"),
        ({}, {"frozen": 1}, "frozen must be True or False"),
        ({"action": np.array([0, 2])}, {}, "action must hold labels from 0 to 1"),
        ({"reward": np.zeros(3)}, {}, "reward must have shape"),
        ({"next_observation": np.zeros((3, 2, 4))}, {}, "next_observation must have the shapes"),
        ({"terminated": np.zeros(2)}, {}, "terminated must hold one truth value"),
    ],
)
def test_sentences(change, options, match):
    given = history(np.zeros((2, 2, 4)), np.zeros(2, int), np.zeros(2), np.zeros((2, 2, 4)))._replace(**change)
    with pytest.raises((ValueError, TypeError), match=match):
        td_stability(Linear(jnp.ones(4)), given, **{"beta": 0.5} | options)


def test_sentences_about_the_network():
    given = history(np.zeros((2, 4)), np.zeros(2, int), np.zeros(2), np.zeros((2, 4)))
    with pytest.raises(ValueError, match="one value per action"):
        td_stability(Linear(jnp.ones(4)), given, 0.5)
    with pytest.raises(TypeError, match="must be a History"):
        td_stability(Linear(jnp.ones(4)), given.observation, 0.5)
