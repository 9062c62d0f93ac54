import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from corollary.reinforcement import History, Table, fitted_q, fitted_target, frozen_target_loss, td_stability

RNG = np.random.default_rng(0)
X, A, Z = RNG.integers(3, size=30), RNG.integers(2, size=30), RNG.integers(3, size=30)
REWARD, ENDED = RNG.normal(size=30), RNG.random(30) < 0.2
HISTORY = History(X, A, REWARD, Z, ENDED, np.zeros(30, bool))
Q, OTHER = RNG.normal(size=(3, 2)), RNG.normal(size=(3, 2))


def test_targets_and_losses_by_hand():
    y = REWARD + 0.7 * np.where(ENDED, 0.0, OTHER[Z].max(1))
    np.testing.assert_allclose(fitted_target(Table(OTHER), HISTORY, 0.7), y)
    np.testing.assert_allclose(frozen_target_loss(Table(Q), Table(OTHER), HISTORY, 0.7), ((Q[X, A] - y) ** 2).mean())
    means = np.array([y[(x == X) & (a == A)].mean() for x, a in zip(X, A, strict=True)])
    averaged = frozen_target_loss(Table(Q), Table(OTHER), HISTORY, 0.7, averaged=True)
    np.testing.assert_allclose(averaged, ((Q[X, A] - means) ** 2).mean())


def test_the_target_is_not_differentiated():
    slope = jax.grad(lambda q: frozen_target_loss(Table(q), Table(q), HISTORY, 0.7))(jnp.asarray(Q))
    y = REWARD + 0.7 * np.where(ENDED, 0.0, Q[Z].max(1))
    expected = np.zeros((3, 2))
    np.add.at(expected, (X, A), 2 * (Q[X, A] - y) / 30)
    np.testing.assert_allclose(slope, expected, rtol=1e-12)


def test_sweeps_of_descent_by_hand():
    found = fitted_q(Table(Q), HISTORY, beta=0.7, optimiser=optax.sgd(0.5), sweeps=3, steps=2)
    q = Q.copy()
    losses = []
    for _ in range(3):
        y = REWARD + 0.7 * np.where(ENDED, 0.0, q[Z].max(1))
        for _ in range(2):
            losses.append(((q[X, A] - y) ** 2).mean())
            slope = np.zeros((3, 2))
            np.add.at(slope, (X, A), 2 * (q[X, A] - y) / 30)
            q = q - 0.5 * slope
    np.testing.assert_allclose(found.network.values, q, rtol=1e-12)
    np.testing.assert_allclose(found.losses.ravel(), losses, rtol=1e-12)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: fitted_target(Table(Q), (X, A), 0.7), "history must be a History"),
        (lambda: fitted_target(3, HISTORY, 0.7), "network must be"),
        (lambda: fitted_target(lambda x: 1.0 * x, HISTORY, 0.7), "network must return one value per action"),
        (lambda: fitted_target(Table(Q), HISTORY, 1.7), "beta must be in"),
        (lambda: fitted_q(Table(Q), HISTORY, beta=2.0, optimiser=optax.sgd(0.1), sweeps=1), "beta must be in"),
    ],
)
def test_bad_input(call, sentence):
    with pytest.raises((TypeError, ValueError), match=sentence):
        call()


class Linear(eqx.Module):
    theta: jax.Array

    def __call__(self, x):
        return x @ self.theta


def test_rounds_of_a_frozen_target_contract_as_the_spectrum_says():
    # one action, three features, eight moves: the rounds are least squares, solved to the end by descent
    x, z = RNG.normal(size=(2, 8, 1, 3))
    no = np.zeros(8, bool)
    h = History(x, np.zeros(8, int), RNG.normal(size=8), z, no, no)
    network = Linear(jnp.zeros(3))
    phi, phi2 = x[:, 0], z[:, 0]
    beta = 0.5 / np.abs(np.linalg.eigvals(np.linalg.pinv(phi) @ phi2)).max()
    spectrum = td_stability(network, h, beta, frozen=True)
    np.testing.assert_allclose(spectrum.radius, 0.5, rtol=1e-8)
    step = 1 / np.linalg.eigvalsh(phi.T @ phi / 4).max()
    fit = jax.jit(lambda n: fitted_q(n, h, beta=beta, optimiser=optax.sgd(step), sweeps=60, steps=400))
    exact = np.linalg.solve(phi.T @ (phi - beta * phi2), phi.T @ h.reward)
    np.testing.assert_allclose(fit(network).network.theta, exact, atol=1e-6)
