"""Q-learning with the wide network against a plain loop in NumPy, autodiff, and SGD on labels."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import erf

from corollary.dynamics import ScaledNetwork, draw_shallow, shallow_sgd, tangent_kernel
from corollary.kernels import empirical_ntk
from corollary.reinforcement import FiniteMDP, q_network, q_network_sgd, state_action_pairs

RNG = np.random.default_rng(0)
STATES, ACTIONS = RNG.normal(size=(3, 2)), RNG.normal(size=(2, 2))
P, R = RNG.dirichlet(np.ones(3), size=(3, 2)), RNG.normal(size=(3, 2))
X, A = RNG.integers(0, 3, 13), RNG.integers(0, 2, 12)
C, W = RNG.normal(size=(2, 5)), RNG.normal(size=(2, 5, 4))
PAIRS = np.concatenate([np.repeat(STATES[:, None], 2, 1), np.repeat(ACTIONS[None], 3, 0)], 2)


def test_pairs_are_all_states_with_all_actions():
    np.testing.assert_array_equal(state_action_pairs(STATES, ACTIONS), PAIRS)


def plain(c, w, beta, final=None):
    """The text's updates with γ = ½, for one network or, with `final`, for one per time."""
    c, w = c.copy(), w.copy()
    j, n = c.shape
    scale, eta = n**-0.5, 0.7 / n

    def value(i, xi):
        return scale * erf(xi @ w[i].T) @ c[i]

    for x, a, z in zip(X[:-1], A, X[1:], strict=True):
        best = [max(value(i, PAIRS[z, b]) for b in range(2)) for i in range(j)]
        later = best if final is None else [*best[1:], final[z]]
        delta = [R[x, a] + beta * later[i] - value(i, PAIRS[x, a]) for i in range(j)]
        for i in range(j):
            xi = PAIRS[x, a]
            u = w[i] @ xi
            old = c[i].copy()
            c[i] = c[i] + eta * scale * delta[i] * erf(u)
            w[i] = w[i] + eta * scale * delta[i] * (old * 2 / np.sqrt(np.pi) * np.exp(-(u**2)))[:, None] * xi
    return c, w


def test_steps_are_those_of_the_text():
    mdp = FiniteMDP(P, R, 0.6)
    seen, end = q_network_sgd(ScaledNetwork(C[0], W[0]), PAIRS, mdp, (X, A), 0.7, np.array([0, 12]))
    c, w = plain(C[:1], W[:1], 0.6)
    np.testing.assert_allclose(end.outer, c[0], rtol=1e-12)
    np.testing.assert_allclose(end.inner, w[0], rtol=1e-12)
    np.testing.assert_allclose(seen[-1], 5**-0.5 * erf(PAIRS @ w[0].T) @ c[0], rtol=1e-12)


def test_one_network_per_time():
    mdp, final = FiniteMDP(P, R, 0.9), RNG.normal(size=3)
    networks = jax.vmap(lambda c, w: ScaledNetwork(c, w))(jnp.asarray(C), jnp.asarray(W))
    options = {"horizon": 2, "final": final}
    seen, end = q_network_sgd(networks, PAIRS, mdp, (X, A), 0.7, np.array([12]), **options)
    c, w = plain(C, W, 0.9, final)
    np.testing.assert_allclose(end.outer, c, rtol=1e-12)
    np.testing.assert_allclose(end.inner, w, rtol=1e-12)
    assert seen.shape == (1, 2, 3, 2)


@pytest.mark.parametrize("bias", [False, True])
def test_without_discount_it_is_sgd_bit_for_bit(bias):
    network = draw_shallow(7, 4, key=jax.random.key(0), bias=bias)
    mdp = FiniteMDP(P, R, 0.0)
    learned = q_network_sgd(network, PAIRS, mdp, (X, A), 0.7)
    fitted = shallow_sgd(network, PAIRS.reshape(6, 4), R.ravel(), 0.7, 2 * X[:-1] + A)
    np.testing.assert_array_equal(learned[0].reshape(13, 6), fitted[0])
    np.testing.assert_array_equal(learned[1].inner, fitted[1].inner)


def test_as_a_network_of_states():
    units = ScaledNetwork(C[0], W[0], gamma=0.75)
    network = q_network(units, ACTIONS)
    values = jax.jit(jax.vmap(network))(STATES)
    np.testing.assert_allclose(values, units(PAIRS), rtol=1e-13)
    assert sum(leaf.size for leaf in jax.tree.leaves(network.params)) == 5 * (1 + 4)

    class First(eqx.Module):
        network: object

        def __call__(self, x):
            return self.network(x)[0]

    kernel = empirical_ntk(First(network), jnp.asarray(STATES))
    np.testing.assert_allclose(kernel, 5 ** (1 - 2 * 0.75) * tangent_kernel(units, PAIRS[:, 0]), rtol=1e-12)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"path": (X, np.full(12, 2))}, "actions must hold labels from 0 to 1"),
        ({"path": (X[:-1], A)}, "states must have shape"),
        ({"path": X}, "path must be the pair"),
        ({"pairs": PAIRS[:2]}, "pairs must have shape"),
        ({"checkpoints": np.array([3, 1])}, "checkpoints must increase"),
        ({"horizon": 3}, "leading axis of 3 networks"),
        ({"observe": 3}, "observe must be a function"),
        ({"mdp": 3}, "mdp must be a FiniteMDP"),
        ({"network": 3}, "network must be a ScaledNetwork"),
    ],
)
def test_sentences(change, match):
    given = {"network": ScaledNetwork(C[0], W[0]), "pairs": PAIRS, "mdp": FiniteMDP(P, R, 0.5), "path": (X, A)}
    with pytest.raises((ValueError, TypeError), match=match):
        q_network_sgd(**given | {"eta": 1.0} | change)
