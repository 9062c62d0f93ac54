"""Why does it predict this? The zoo of this section with healthy twins, over seeds, and its numbers against references.

All networks of the zoo have one architecture and data of one shape, so that they share compiled programs.
"""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from made import made

from corollary.audit._budget import BUDGETS, Budget
from corollary.audit.sections import _alike, _blamed, _doubtful, _explained, _importance, _maps, _players, attribution

D, WIDTH, K, N, TESTS = 10, 32, 3, 300, 256
SEEDS = (0, 1)
WRONG = 6
# centres so near that a column which gives the class away is worth having
NEAR = 1.0
STEPS = 60


def apply(params, x):
    h = jnp.tanh(x @ params["w"] + params["b"])
    return h @ params["v"] + params["c"]


def start(seed):
    keys = jax.random.split(jax.random.key(seed))
    w = jax.random.normal(keys[0], (D, WIDTH)) * D**-0.5
    v = jax.random.normal(keys[1], (WIDTH, K)) * WIDTH**-0.5
    return {"w": w, "b": jnp.zeros(WIDTH), "v": v, "c": jnp.zeros(K)}


@jax.jit
def trained(params, x, y, steps):
    optimiser = optax.adam(0.01)

    def loss(p):
        return optax.softmax_cross_entropy_with_integer_labels(apply(p, x), y).mean()

    def step(_, carry):
        p, memory = carry
        updates, memory = optimiser.update(jax.grad(loss)(p), memory)
        return optax.apply_updates(p, updates), memory

    return jax.lax.fori_loop(0, steps, step, (params, optimiser.init(params)))[0]


def blobs(seed, n, apart=2.0):
    rng = np.random.default_rng((seed, n))
    y = rng.integers(0, K, n)
    centres = apart * np.random.default_rng(seed).normal(size=(K, D))
    return (centres[y] + rng.normal(size=(n, D))).astype(np.float32), y


def subject(seed, train=None, test=None, steps=STEPS, apart=2.0):
    train = blobs(seed, N, apart) if train is None else train
    test = blobs(seed, TESTS, apart) if test is None else test
    first = start(seed)
    end = trained(first, *train, steps)
    return made(apply, end, "cross_entropy", train, test, initial=first, optimiser=optax.adam(0.01), steps=STEPS)


def found(one, budget=BUDGETS["quick"]):
    return {f.name: f for f in attribution.findings(one, budget, jax.random.key(0))}


def leaked(seed):
    """The last column says the class in training; in test it is that of another example."""
    (x, y), (x_test, y_test) = blobs(seed, N, NEAR), blobs(seed, TESTS, NEAR)
    other = np.random.default_rng(seed).permutation(y_test)

    def told(x, y):
        return np.concatenate([x[:, :-1], 2.0 * (y[:, None] - 1) + 0.1 * x[:, -1:]], 1).astype(np.float32)

    return subject(seed, (told(x, y), y), (told(x_test, other), y_test))


def duplicated(seed):
    def twice(x, y):
        return np.concatenate([x[:, :-1], x[:, 2:3]], 1), y

    return subject(seed, twice(*blobs(seed, N)), twice(*blobs(seed, TESTS)))


def flips(seed):
    return np.random.default_rng(seed).choice(N, WRONG, replace=False)


def flipped(seed):
    x, y = blobs(seed, N)
    y = y.copy()
    y[flips(seed)] = (y[flips(seed)] + 1) % K
    return subject(seed, (x, y))


def copied(seed):
    (x, y), (x_test, y_test) = blobs(seed, N), blobs(seed, TESTS)
    x, y = x.copy(), y.copy()
    x[17], y[17] = x_test[5], y_test[5]
    return subject(seed, (x, y))


def stopped(seed):
    return subject(seed, steps=3)


ZOO = {
    "leaked feature": (leaked, _importance.SHORTCUT, "problem"),
    "duplicated feature": (duplicated, _alike.SAME, "look"),
    "2 % of the labels flipped": (flipped, _doubtful.LABELS, "look"),
    "a test point copied into training": (copied, _doubtful.COPIED, "look"),
    "stopped far from a minimum": (stopped, _blamed.BELIEVED, "problem"),
}


@pytest.fixture(scope="module")
def healthy():
    return {seed: found(subject(seed)) for seed in SEEDS}


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_wrong_with_a_healthy_network(healthy, seed):
    findings = healthy[seed]
    assert {f.mark for f in findings.values()} == {"fine"}
    assert attribution.answer(list(findings.values())).startswith("Yes: on test data column ")
    assert len(findings) == 9


@pytest.mark.parametrize("name", ZOO)
@pytest.mark.parametrize("seed", SEEDS)
def test_the_defect_is_named(healthy, seed, name):
    make, what, mark = ZOO[name]
    findings = found(make(seed))
    assert findings[what].mark == mark
    assert healthy[seed][what].mark == "fine"
    assert attribution.answer(list(findings.values())).startswith("Partly: ")


@pytest.mark.parametrize("seed", SEEDS)
def test_a_task_as_hard_as_the_leaked_one_has_no_shortcut(seed):
    numbers = _importance.measure_importance(subject(seed, apart=NEAR), BUDGETS["quick"], jax.random.key(0))
    assert _importance.judge_shortcut(numbers).mark == "fine"
    leak = _importance.measure_importance(leaked(seed), BUDGETS["quick"], jax.random.key(0))
    assert leak.players.names[_importance.shortcut_of(leak)[0]] == f"column {D - 1}"


@pytest.mark.parametrize("seed", SEEDS)
def test_of_the_first_labels_listed_most_are_wrong(seed):
    one = flipped(seed)
    blamed = _blamed.measure_blamed(one, BUDGETS["quick"], _explained.explained(one), jax.random.key(0))
    listed = _doubtful.measure_doubts(one, blamed).order[:WRONG]
    assert np.isin(listed, flips(seed)).mean() >= 0.8
