import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.reinforcement import FiniteMDP, empirical_law, explore, q_learning, td_direction

KEY = jax.random.key(0)
P = np.random.default_rng(0).dirichlet(np.ones(3), (3, 2))
R = np.random.default_rng(1).normal(size=(3, 2))


def made():
    return FiniteMDP(P, R, 0.8)


def test_exploring_has_its_frequencies():
    values = jnp.broadcast_to(jnp.array([0.0, 2.0, 1.0]), (6000, 3))
    for epsilon in (0.0, 0.3, 1.0):
        actions = np.asarray(explore(values, epsilon, key=KEY))
        shares = np.bincount(actions, minlength=3) / 6000
        expected = np.full(3, epsilon / 3) + np.array([0, 1 - epsilon, 0])
        assert np.abs(shares - expected).max() <= 5 * 0.5 / np.sqrt(6000) * (epsilon > 0)


def test_the_empirical_law_counts():
    x, a, z = np.array([0, 0, 0, 1]), np.array([1, 1, 1, 0]), np.array([2, 2, 0, 1])
    law = empirical_law(x, a, z, states=3, actions=2)
    np.testing.assert_allclose(law.p[0, 1], [1 / 3, 0, 2 / 3])
    np.testing.assert_array_equal(law.visits, [[0, 3], [1, 0], [0, 0]])
    np.testing.assert_array_equal(law.p[2], 0.0)


def test_learning_by_hand_from_the_same_draws():
    learned = q_learning(made(), 40, step=lambda n: 1 / n, epsilon=0.5, records=4, key=KEY)
    drawn = np.asarray(jax.random.uniform(KEY, (4, 10, 3))).reshape(40, 3)
    q, visits, x = np.zeros((3, 2)), np.zeros((3, 2), int), 0
    for trying, choosing, moving in drawn:
        a = int(choosing * 2) if trying < 0.5 else int(q[x].argmax())
        z = int((moving >= np.cumsum(P[x, a])).sum())
        visits[x, a] += 1
        q[x, a] += (R[x, a] + 0.8 * q[z].max() - q[x, a]) / visits[x, a]
        x = z
    np.testing.assert_allclose(learned.q, q)
    np.testing.assert_array_equal(learned.visits, visits)
    np.testing.assert_array_equal(learned.path[-1], learned.q)
    assert learned.path.shape == (4, 3, 2)


def test_linear_learning_with_a_feature_per_pair_is_the_table():
    features = np.eye(6).reshape(3, 2, 6)
    table = q_learning(made(), 40, step=0.3, key=KEY)
    linear = q_learning(made(), 40, step=0.3, features=features, key=KEY)
    np.testing.assert_allclose(linear.q, table.q, rtol=1e-12)
    np.testing.assert_allclose(linear.theta, table.theta, rtol=1e-12)
    theta = np.arange(6.0)
    direction = td_direction(theta, features, 1, 0, R[1, 0], 2, 0.8)
    np.testing.assert_allclose(direction, np.eye(6)[2] * (R[1, 0] + 0.8 * 5.0 - 2.0))


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: explore([0.0, 1.0], 1.5, key=KEY), r"epsilon must be in \[0, 1\]"),
        (lambda: empirical_law([0], [2], [0], states=1, actions=2), "action must hold labels from 0 to 1"),
        (lambda: q_learning(None, 10, key=KEY), "mdp must be a FiniteMDP"),
        (lambda: q_learning(made(), 10, records=3, key=KEY), "records must divide steps"),
        (lambda: q_learning(made(), 10, step=-1.0, key=KEY), "step must be positive"),
        (lambda: q_learning(made(), 10, start=np.zeros(3), key=KEY), "start must have shape"),
        (lambda: q_learning(made(), 400, step=100.0, key=KEY), "The values explode"),
        (lambda: td_direction(np.ones(6), np.eye(6).reshape(3, 2, 6), 3, 0, 0.0, 0, 0.5), "x must hold labels"),
    ],
)
def test_bad_input(call, sentence):
    with pytest.raises((TypeError, ValueError), match=sentence):
        call()
