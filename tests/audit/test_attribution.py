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
from corollary.audit.sections import (
    _alike,
    _blamed,
    _doubtful,
    _explained,
    _importance,
    _maps,
    _mends,
    _players,
    attribution,
)

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
    "stopped far from a minimum": (stopped, _blamed.BELIEVED, "look"),
}


@pytest.fixture(scope="module")
def healthy():
    return {seed: found(subject(seed)) for seed in SEEDS}


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_wrong_with_a_healthy_network(healthy, seed):
    findings = healthy[seed]
    assert {f.mark for f in findings.values()} == {"fine"}
    assert attribution.answer(list(findings.values())).startswith(
        "Yes: on test data all inputs together raise the probability of the target by "
    )
    assert len(findings) == 10


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
def test_wrong_test_labels_are_no_shortcut(seed):
    x, y = blobs(seed, TESTS)
    numbers = _importance.measure_importance(subject(seed, test=(x, (y + 1) % K)), BUDGETS["quick"], jax.random.key(0))
    # no input counts in such test data, and so none is to blame
    assert (numbers.test.permutation_ends[1] < 0.5 * numbers.train.permutation_ends[0].clip(0)).any()
    assert _importance.judge_shortcut(numbers).mark == "fine"


@pytest.mark.parametrize("seed", SEEDS)
def test_of_the_first_labels_listed_most_are_wrong(seed):
    one = flipped(seed)
    blamed = _blamed.measure_blamed(one, BUDGETS["quick"], _explained.explained(one), jax.random.key(0))
    listed = _doubtful.measure_doubts(one, blamed).order[:WRONG]
    assert np.isin(listed, flips(seed)).mean() >= 0.8


CURED = {"leaked feature": f"drop column {D - 1}", "stopped far from a minimum": "train it further"}


@pytest.mark.parametrize("name", CURED)
def test_the_first_action_cures(name):
    make, what, _ = ZOO[name]
    sick = make(0)
    action = next(attribution.actions(sick, list(found(sick).values())))
    assert action.what.startswith(CURED[name])
    assert action.treats == what
    cured = action.apply(sick, key=jax.random.key(1))
    assert found(cured)[what].mark == "fine"
    low, high = action.effect.interval
    assert low - 1e-3 <= action.effect.measured(cured) <= high + 1e-3
    assert action.effect.measured(cured) < action.effect.now


def test_labels_are_looked_at_by_a_person_and_columns_dropped_by_a_program():
    wrong = flipped(0)
    action = next(attribution.actions(wrong, list(found(wrong).values())))
    assert action.apply(wrong, key=jax.random.key(0)) is None
    assert action.what.startswith("look at these ")
    named = {int(n) for n in action.what.partition(": ")[2].split(", ")}
    assert len(named & set(flips(0).tolist())) >= 0.8 * len(named)
    # an action for another disease leaves it
    columns = _alike.measure_alike(duplicated(0))
    other = _mends.drop_copies(wrong, columns)
    assert other.what == f"remove the duplicated column {D - 1}"
    assert found(other.apply(wrong, key=jax.random.key(0)))[_doubtful.LABELS].mark == "look"


def test_a_network_whose_weights_do_not_matter_is_not_explained():
    """All weights are equal, so that mixed up they are the same."""
    x = np.random.default_rng(0).normal(size=(64, 6)).astype(np.float32)
    same = made(lambda w, x: x @ w, jnp.ones((6, 1)), "squared", (x, x.sum(1, keepdims=True) + 0.1))
    findings = found(same)
    assert findings[_maps.MIXED].mark == "look"
    assert findings[_maps.MIXED].value == pytest.approx(1.0)
    assert attribution.answer(list(findings.values())).startswith("No: attributions of networks with the same weights")
    assert findings[_importance.SHORTCUT].mark == "not applicable"


def test_images_are_explained_by_patches_and_drawn():
    """A patch that has the class in training, and another one's in test, is masked."""
    rng = np.random.default_rng(0)

    def images(n, honest):
        y = rng.integers(0, 2, n)
        x = rng.normal(size=(n, 12, 12)).astype(np.float32)
        x[:, 6:9, 6:9] += 1.5 * (2 * y - 1)[:, None, None]
        x[:, :2, :2] = (4 * (y if honest else rng.integers(0, 2, n)) - 2)[:, None, None]
        return x, y

    def score(w, x):
        return jnp.stack([-1.0, 1.0], -1) * (x * w).sum((-2, -1))[..., None]

    weights = np.zeros((12, 12), np.float32)
    weights[6:9, 6:9], weights[:2, :2] = 0.05, 1.0
    marked = made(score, jnp.asarray(weights), "cross_entropy", images(128, True), images(128, False))
    findings = found(marked)
    assert findings[_importance.SHORTCUT].mark == "problem"
    assert "rows 0 to 1, columns 0 to 1" in findings[_importance.SHORTCUT].sentence
    # five mistakes and five others, each beside its attribution
    assert len(findings[_maps.MAPS].figure.spec["data"]["values"]) == 10 * 2 * 12 * 12


def test_players_of_every_kind_of_input():
    shapes = {(4, 3): 3, (4, 200): 64, (4, 32, 32): 64, (4, 3, 28, 28): 49, (4, 28, 28, 1): 49}
    for shape, number in shapes.items():
        found = _players.players_of(jnp.zeros(shape))
        assert len(found.names) == number
        assert np.shape(found.owner) == shape[1:]
        assert np.max(found.owner) == number - 1
    words = _players.players_of(jnp.zeros((4, 5), int))
    assert words.names == tuple(f"place {i}" for i in range(5))
    several = _players.players_of({"a": jnp.zeros((4, 3)), "b": jnp.zeros(4, int)})
    assert several.names == ("input a", "input b")


def test_copies_of_columns():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(N, D)).astype(np.float32)
    x[:, 4], x[:, 7], x[:, 9] = -2 * x[:, 1], x[:, 1] + 3, 1.0
    x[:, 8] = 0
    x[0, 8] = 1  # one point is no correlation
    found = _alike.measure_alike(made(lambda w, x: x @ w, jnp.ones((D, 1)), "squared", (x, x[:, :1])))
    assert found.copies == ((1, 4), (1, 7))
    assert abs(found.correlation) == pytest.approx(1, abs=1e-5)


def test_what_is_too_much_is_left_out_in_a_sentence():
    one = subject(0)
    findings = found(one, Budget("quick", 2048, 256, 120, work=1e5))
    assert [f.mark for f in findings.values()].count("not applicable") == 7
    assert all("--budget full" in findings[n].sentence for n in (_importance.IMPORTANT, _maps.MAPS, _blamed.POINTS))
    assert attribution.answer(list(findings.values())).startswith("Cannot tell: this was left out")
    long = found(one, Budget("quick", 2048, 256, 120, work=1e12, steps=one.cost.steps - 1))
    assert "a program of" in long[_blamed.BELIEVED].sentence
    assert long[_importance.IMPORTANT].mark == "fine"


def test_equal_inputs_with_different_labels():
    (x, y), rows = blobs(0, N), np.arange(20)
    assert _doubtful.judge_torn(_doubtful.measure_torn(subject(0, (x, y)))).value == 0
    x, y = np.array(x), np.array(y)
    x[100:120], y[100:120] = x[rows], (y[rows] + 1) % K
    torn = _doubtful.measure_torn(subject(0, (x, y)))
    finding = _doubtful.judge_torn(torn)
    assert finding.mark == "look"
    assert finding.value == pytest.approx(100 * 20 / N)
    assert "40 training examples have the input of another one" in finding.sentence
    assert set(torn.rows) == {*rows, *range(100, 120)}
    # rows of a table of few values are equal by themselves
    assert _doubtful.judge_torn(torn._replace(different=N // 4)).mark == "fine"
