"""Will it generalise? The zoo of this section with healthy twins, over seeds, and its numbers against references.

All networks but one have one architecture and data of one shape, so that they share compiled programs.
"""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from made import made
from scipy.spatial.distance import cdist
from scipy.stats import beta, binom

from corollary import Network
from corollary.audit import Finding
from corollary.audit._budget import BUDGETS, Budget
from corollary.audit.sections import (
    _calibration,
    _capacity,
    _columns,
    _copies,
    _curve,
    _gap,
    _law,
    _left_out,
    _named,
    _neighbourly,
    _rows,
    _shuffled,
    _threshold,
    generalisation,
)
from corollary.generalization.bounds import BOUNDS
from corollary.network.parts import split

D, WIDTH, K, N, TESTS = 10, 64, 3, 120, 100
SEEDS = (0, 1, 2)
GAP, COPIES = "gap between training and test error", "test examples found in the training data"
SHUFFLED, NORMS = "labels against shuffled ones", "largest norm of a layer against the others"
COLUMN, CERTIFICATE = "what the best column alone leaves open", "PAC-Bayes certificate"


def apply(params, x):
    h = jax.nn.relu(x @ params["w"] + params["b"])
    return h @ params["v"] + params["c"]


def start(seed):
    keys = jax.random.split(jax.random.key(seed))
    w = jax.random.normal(keys[0], (D, WIDTH)) * (2 / D) ** 0.5
    v = jax.random.normal(keys[1], (WIDTH, K)) * WIDTH**-0.5
    return {"w": w, "b": jnp.zeros(WIDTH), "v": v, "c": jnp.zeros(K)}


@jax.jit
def trained(params, x, y):
    """Four hundred steps of Adam on all data, enough to learn any labels by heart."""
    optimiser = optax.adam(0.02)

    def loss(p):
        return optax.softmax_cross_entropy_with_integer_labels(apply(p, x), y).mean()

    def step(carry, _):
        p, memory = carry
        updates, memory = optimiser.update(jax.grad(loss)(p), memory)
        return (optax.apply_updates(p, updates), memory), None

    return jax.lax.scan(step, (params, optimiser.init(params)), None, length=400)[0][0]


def blobs(seed, n):
    rng = np.random.default_rng((seed, n))
    y = rng.integers(0, K, n)
    centres = 1.2 * np.random.default_rng(seed).normal(size=(K, D))
    return (centres[y] + rng.normal(size=(n, D))).astype(np.float32), y


def subject(seed, train=None, test=None, params=None, **known):
    """A network trained on these data; `params` changes its weights afterwards."""
    train, test = blobs(seed, N) if train is None else train, blobs(seed, TESTS) if test is None else test
    first = start(seed)
    end = trained(first, *train)
    known = {"initial": first} | known
    return made(apply, end if params is None else params(end), "cross_entropy", train, test, **known)


def found(subject, budget=BUDGETS["quick"]):
    return {f.name: f for f in generalisation.findings(subject, budget, jax.random.key(0))}


@pytest.fixture(scope="module")
def healthy():
    return {seed: found(subject(seed)) for seed in SEEDS}


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_wrong_with_a_healthy_network(healthy, seed):
    assert {f.mark for f in healthy[seed].values()} == {"fine"}


@pytest.mark.parametrize("seed", SEEDS)
def test_random_labels_learned_by_heart(seed):
    rng = np.random.default_rng(seed)
    (x, _), (x_test, _) = blobs(seed, N), blobs(seed, TESTS)
    memorised = subject(seed, (x, rng.integers(0, K, N)), (x_test, rng.integers(0, K, TESTS)))
    assert memorised.error("train") == 0
    gap = _gap.gap(_gap.errors_of(memorised))
    learned = _gap.learned_by_errors(memorised)
    shuffled = _shuffled.finding(memorised, BUDGETS["quick"], memorised.initial_params, learned, jax.random.key(seed))
    assert (gap.mark, shuffled.mark) == ("problem", "problem")
    assert "by heart" in gap.sentence
    assert "no faster than random ones" in shuffled.sentence
    # the same labels, not fitted, are only to be looked at
    blank = memorised.with_params(jax.tree.map(jnp.zeros_like, memorised.params))
    assert not _gap.learned_by_errors(blank)


@pytest.mark.parametrize("jitter", [0.0, 1e-3])
@pytest.mark.parametrize("seed", SEEDS)
def test_test_points_in_the_training_data(seed, jitter):
    train, (x, y) = blobs(seed, N), blobs(seed, TESTS)
    moved = x + jitter * np.random.default_rng(seed).normal(size=x.shape).astype(np.float32)
    leaked = tuple(np.concatenate([a[:-12], b[:12]]) for a, b in zip(train, (moved, y), strict=True))
    finding = _copies.finding(subject(seed, leaked), jax.random.key(0))
    assert finding.mark == "problem"
    assert finding.value == 12
    assert "this is a leak" in finding.sentence
    assert ("nearly" in finding.sentence) == (jitter > 0)
    # copies within the training data are no leak
    twice = tuple(np.concatenate([a[:-12], a[:12]]) for a in train)
    assert _copies.finding(subject(seed, twice), jax.random.key(0)).mark == "fine"


def test_values_that_all_examples_share_are_no_leak():
    """A table of few values has the same rows again and again, in both parts."""
    rng = np.random.default_rng(0)
    rows = [rng.integers(0, 2, (n, D)).astype(np.float32) * (np.arange(D) < 6) for n in (N, TESTS)]
    shared = subject(0, (rows[0], rng.integers(0, K, N)), (rows[1], rng.integers(0, K, TESTS)))
    finding = _copies.finding(shared, jax.random.key(0))
    assert finding.mark == "fine"
    assert finding.value > 50


def test_initial_that_is_the_trained_network_is_refused():
    end = trained(start(0), *blobs(0, N))
    findings = found(subject(0, initial=end))
    refused = findings["distance from the initial network"]
    assert refused.mark == "problem"
    assert "refused as a prior" in refused.sentence
    # what is left is a prior from a part of the data
    assert "trained on a random half of the data" in findings[CERTIFICATE].premises[0].measured
    assert findings[SHUFFLED].mark == "not applicable"


@pytest.mark.parametrize("seed", SEEDS)
def test_one_layer_of_norm_1000(healthy, seed):
    def large(params):
        return params | {"v": params["v"] * 1000 / jnp.linalg.norm(params["v"], 2)}

    sick = subject(seed, params=large)
    finding = _capacity.layer_norms(sick, sick.network, jax.random.key(0), True)
    assert finding.mark == "problem"
    assert "that of v is the largest for its shape with 1,000" in finding.sentence
    assert healthy[seed][NORMS].mark == "fine"


def test_ten_times_the_width_and_the_same_function(healthy):
    def wider(params):
        w, b, v = (jnp.repeat(params[name], 10, axis) for name, axis in (("w", 1), ("b", 0), ("v", 0)))
        return {"w": w, "b": b, "v": v / 10, "c": params["c"]}

    one = subject(0)
    end, first = (wider(network.params) for network in (one.params, one.initial_params))
    wide = made(apply, end, "cross_entropy", one.train, one.test, initial=first)
    np.testing.assert_allclose(wide.outputs("test"), one.outputs("test"), atol=1e-4)
    findings = found(wide)
    assert {name: f.mark for name, f in findings.items()} == {name: f.mark for name, f in healthy[0].items()}
    for name in (GAP, COPIES, COLUMN):
        assert findings[name].sentence == healthy[0][name].sentence


@pytest.mark.parametrize("seed", SEEDS)
def test_a_column_made_from_the_label(seed):
    x, y = blobs(seed, N)
    leaked = np.concatenate([x[:, :-1], y[:, None] + 0.1 * x[:, -1:]], 1).astype(np.float32)
    finding = _columns.finding(subject(seed, (leaked, y)))
    assert finding.mark == "look"
    assert f"Column {D - 1} alone" in finding.sentence


def test_the_gap_has_the_interval_of_clopper_and_pearson(healthy):
    one = subject(0)
    wrong = int(np.sum(np.asarray(one.predict("test")) != blobs(0, TESTS)[1]))
    low = beta.ppf(0.025, wrong, TESTS - wrong + 1) if wrong else 0.0
    high = beta.ppf(0.975, wrong + 1, TESTS - wrong)
    gap = healthy[0][GAP]
    assert gap.value == pytest.approx(wrong / TESTS - one.error("train"))
    np.testing.assert_allclose(gap.interval, np.array([low, high]) - one.error("train"), atol=1e-9)


def test_every_bound_stands_in_the_picture(healthy):
    finding = healthy[0]["tightest bound on the error of new examples"]
    (rows,) = [layer["data"]["values"] for layer in finding.figure.spec["layer"] if len(layer["data"]["values"]) > 1][
        :1
    ]
    kinds = {row["what"]: row["kind"] for row in rows}
    assert set(kinds) == {"measured on test data", *(name.partition(",")[0] for name in BOUNDS)} - {"VC dimension"}
    assert kinds["measured on test data"] == "measured"
    assert {row["kind"] for row in rows if row["error"] >= 1} == {"vacuous bound"}
    assert kinds["PAC-Bayes"] == "bound"
    certificate = healthy[0][CERTIFICATE]
    assert finding.value == pytest.approx(certificate.value)
    assert "would lower it most" in certificate.sentence


def test_what_can_be_said_without_test_data_and_without_a_start():
    x, y = blobs(0, N)
    alone = made(apply, trained(start(0), x, y), "cross_entropy", (x, y))
    findings = found(alone)
    assert findings["gap"].mark == "not applicable"
    assert "give test=(x, y)" in findings["gap"].sentence
    assert COPIES not in findings
    assert 0 < findings[CERTIFICATE].value < 1
    assert "there is no initial network" in findings[CERTIFICATE].premises[0].measured
    assert "initial nor init" in findings[SHUFFLED].sentence
    assert "initial nor init" in findings[_curve.TWICE["error"]].sentence
    answer = generalisation.answer(list(findings.values()))
    assert answer.startswith("Cannot tell: there are no test data. Regression with the tangent kernel errs on ")
    assert answer.endswith("Give test data, test=(x, y), that training has not seen.")


def test_probabilities_that_are_wrong_are_no_plain_yes():
    gap = Finding(GAP, "fine", "It errs on 1 %.", 0.0, exact=True)
    for mark in ("problem", "look"):
        off = Finding(_calibration.NAME, mark, "Its probabilities are off.", 0.2, exact=True)
        assert generalisation.answer([gap, off]) == "Partly: its probabilities are off."
    assert generalisation.answer([gap]) == "Yes: it errs on 1 %."


def test_each_example_left_out_against_regressions_without_it():
    one = subject(0)
    seen = _left_out.measure(one, BUDGETS["quick"], jax.random.key(0))
    params = one.params.params
    gradients = jax.vmap(jax.jacobian(apply), (None, 0))(params, one.train[0])
    features = np.concatenate([np.asarray(g, float).reshape(N, K, -1) for g in jax.tree.leaves(gradients)], -1)
    kernel = np.einsum("iop,jop->ij", features, features)
    labels, wrong = np.asarray(one.labels("train")), []
    goals = np.eye(K)[labels]
    centred, ridge = goals - goals.mean(0), seen.ridge * np.trace(kernel) / N
    for i in range(N):
        rest = np.delete(np.arange(N), i)
        weights = np.linalg.solve(kernel[np.ix_(rest, rest)] + ridge * np.eye(N - 1), centred[rest])
        wrong.append((goals.mean(0) + kernel[i, rest] @ weights).argmax() != labels[i])
    np.testing.assert_array_equal(seen.left_out, wrong)
    weights = np.linalg.solve(kernel + ridge * np.eye(N), centred)
    new = jax.vmap(jax.jacobian(apply), (None, 0))(params, one.test[0])
    new = np.concatenate([np.asarray(g, float).reshape(TESTS, K, -1) for g in jax.tree.leaves(new)], -1)
    told = goals.mean(0) + np.einsum("iop,jop->ij", new, features) @ weights
    np.testing.assert_array_equal(seen.test, told.argmax(1) != np.asarray(one.labels("test")))


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_left_out_agrees_with_test_data_of_the_same_law(healthy, seed):
    assert healthy[seed][_left_out.NAME].sentence.endswith("Its errors on what is left out and on what is new agree.")
    x, y = blobs(seed, TESTS)
    seen = _left_out.measure(subject(seed, test=(x, (y + 1) % K)), BUDGETS["quick"], jax.random.key(0))
    assert "harder than the training data" in _left_out.judge(seen).sentence


def test_a_regression_is_left_out_by_its_squares():
    rng = np.random.default_rng(0)
    w = rng.normal(size=(D, 1)).astype(np.float32)
    x, x_test = (rng.normal(size=(n, D)).astype(np.float32) for n in (60, 40))
    y, y_test = (a @ w + rng.normal(size=(len(a), 1)).astype(np.float32) for a in (x, x_test))
    linear = made(lambda p, x: x @ p, jnp.asarray(w), "squared", (x, y), (x_test, y_test))
    seen = _left_out.measure(linear, BUDGETS["quick"], jax.random.key(0))
    # the kernel of a linear model is that of its inputs: ridge regression on centred targets
    features, centre = x / np.sqrt(np.trace(x @ x.T) / 60), y.mean()
    hat = features @ np.linalg.solve(features.T @ features + seen.ridge * np.eye(D), features.T)
    squares = ((y - centre - hat @ (y - centre)) / (1 - np.diag(hat)[:, None])) ** 2
    np.testing.assert_allclose(seen.left_out, squares[:, 0], rtol=1e-3)
    assert _left_out.judge(seen).value == pytest.approx(squares.mean(), rel=1e-3)


def test_twice_the_data_and_what_is_learned_by_heart(healthy):
    twice, known = (healthy[0][name] for name in (_curve.TWICE["error"], _curve.MEMORISED))
    assert twice.interval[0] <= twice.value <= twice.interval[1] < 0.5
    assert known.value < 20
    x, y = blobs(0, N)
    noise = subject(0, train=(x, np.random.default_rng(0).permutation(y)), test=(blobs(0, TESTS)))
    curve = _curve.measure(noise, BUDGETS["quick"], noise.initial_params, jax.random.key(0))
    # labels of chance: a training without an example is wrong in two of three, one that has it is right
    learned = _curve.judge_memorised(curve)
    assert learned.value > 30 > known.value
    assert "the network knows them by heart" in learned.sentence
    # a line through errors goes on below none and above all
    low, high = _curve.judge(curve, "error").interval
    assert 0 <= low <= high <= 1
    assert 0.4 < curve.curve.mean[-1] < 0.9


def test_a_regression_has_a_gap_of_losses_and_no_bounds():
    rng = np.random.default_rng(0)
    w = rng.normal(size=(D, 1)).astype(np.float32)
    draws = [rng.normal(size=(n, D)).astype(np.float32) for n in (N, TESTS)]
    train, test = ((x, x @ w + 0.1 * rng.normal(size=(len(x), 1)).astype(np.float32)) for x in draws)
    linear = made(lambda p, x: x @ p, jnp.asarray(w), "squared", train, test, initial=jnp.zeros((D, 1)))
    findings = found(linear)
    gap = findings["gap between training and test loss"]
    assert gap.mark == "fine"
    losses = 0.5 * (np.asarray(linear.outputs("test")) - test[1]) ** 2
    assert gap.value == pytest.approx(losses.mean() - linear.mean_loss("train"), rel=1e-4)
    assert "one class to each example" in findings["bounds"].sentence
    assert findings[SHUFFLED].mark == "fine"
    # weights far from any that the targets have say what is lost: all
    fitted = made(lambda p, x: x @ p, jnp.asarray(w), "squared", train, (test[0], test[1][::-1]))
    assert _gap.gap(_gap.errors_of(fitted)).mark == "problem"


def test_a_class_per_place_counts_over_examples():
    """Places of one sequence are wrong together: an interval over places would be far too narrow."""
    rng = np.random.default_rng(0)
    x = np.repeat(rng.normal(size=(200, 1, 1)), 16, axis=1).astype(np.float32)
    y = np.repeat(rng.random(200) < 0.3, 16).reshape(200, 16).astype(int)
    places = made(lambda p, x: p * jnp.concatenate([x + 9, x], -1), jnp.ones(()), "cross_entropy", (x, y), (x, y))
    errors = _gap.errors_of(places)
    assert errors.test == pytest.approx(y.mean())
    width = 1.96 * y[:, 0].std(ddof=1) / np.sqrt(200)
    np.testing.assert_allclose(errors.interval, [errors.test - width, errors.test + width], rtol=1e-6)


def test_nearest_neighbours_against_all_distances():
    rng = np.random.default_rng(0)
    train, test = rng.normal(size=(150, 7)), rng.normal(size=(90, 7))
    all_pairs = cdist(train, train) + np.diag(np.full(150, np.inf))
    own = np.arange(150)
    np.testing.assert_allclose(_rows.distances(train, train, own), all_pairs.min(1), rtol=1e-9)
    np.testing.assert_allclose(_rows.distances(test, train), cdist(test, train).min(1), rtol=1e-9)


def test_sketches_of_wide_rows_keep_distances():
    rng = np.random.default_rng(0)
    train, test = rng.normal(size=(60, 9000)), rng.normal(size=(20, 9000))
    test[:3] = train[:3]
    ours, theirs = _rows.sketches(train, test)
    assert ours.shape == (60, _rows.SKETCH)
    ratio = cdist(theirs, ours)[3:] / cdist(test, train)[3:]
    # 256 sums: the square is off by a standard deviation of √(2/256), 9 %
    assert 0.75 < ratio.min() < ratio.max() < 1.25
    np.testing.assert_allclose(np.diag(cdist(theirs[:3], ours[:3])), 0, atol=1e-3)


@pytest.mark.parametrize(("features", "examples"), [(5, 40), (40, 20), (12, 16)])
def test_the_rank_of_tangent_features_is_that_of_the_design(features, examples):
    """Of a linear model they are its inputs, here with one column that the others give."""
    rng = np.random.default_rng(features)
    x = rng.normal(size=(examples, features)) @ np.eye(features)[: features - 1, :].T
    x = np.concatenate([x, x.sum(1, keepdims=True)], 1).astype(np.float32)
    y = rng.normal(size=(examples, 1)).astype(np.float32)
    linear = made(lambda p, x: x @ p, jnp.ones((features, 1)), "squared", (x, y), (x, y))
    rank = min(features - 1, examples)
    measured = _threshold.measure(linear, BUDGETS["quick"], jax.random.key(0))
    assert measured == (rank, examples, examples, features)
    finding = _threshold.judge(measured)
    assert finding.value == rank / examples
    assert finding.exact
    words = {5: "below the interpolation threshold", 40: "beyond the interpolation", 12: "near the interpolation"}
    assert words[features] in finding.sentence


def test_a_part_of_the_gradients_bounds_the_rank_of_all():
    one = subject(0)
    little = Budget("quick", 2048, 256, 120, work=1e12, memory=64 * 60 * one.size)  # sixty rows
    part = _threshold.measure(one, little, jax.random.key(0))
    assert part.rows == 60
    all_of_them = _threshold.measure(one, BUDGETS["quick"], jax.random.key(0))
    jacobian = jax.vmap(lambda a: jax.jacfwd(lambda p: apply(p, a))(one.params.params))(one.train[0])
    rows = np.concatenate([np.asarray(leaf).reshape(N * K, -1) for leaf in jax.tree.leaves(jacobian)], 1)
    assert all_of_them == (np.linalg.matrix_rank(rows), N * K, N * K, one.size)
    assert part.bounds[0] <= all_of_them.rank <= part.bounds[1]
    assert "cannot be told from so few" in _threshold.judge(part).sentence
    assert _threshold.measure(one, Budget("quick", 2048, 256, 120, work=1e5), jax.random.key(0)) is None
    assert "left out" in _threshold.judge(None).sentence
    shared = _threshold.judge(_threshold.Features(300, 360, 360, 10_000))
    assert "share gradients" in shared.sentence


def test_what_is_too_much_is_left_out_in_a_sentence():
    one = subject(0)
    little = Budget("quick", 2048, 256, 120, work=1e5)
    findings = found(one, little)
    assert "--budget full" in findings["bounds"].sentence
    assert "--budget full" in findings[SHUFFLED].sentence
    long = Budget("quick", 2048, 256, 120, work=1e12, steps=one.cost.steps - 1)
    findings = found(one, long)
    assert "a program of" in findings["bounds, norms and shuffled labels"].sentence
    assert findings[GAP].value is not None


def test_order_of_the_arrays_is_that_of_the_architecture():
    # equal sizes: the sums of the values, which differ from network to network, do not decide
    def net(sign):
        layer = [sign * jnp.ones((4, 4)), sign * jnp.ones(4)]
        return Network(lambda p, x: jnp.tanh(x @ p[0][0] + p[0][1]) @ p[1][0] + p[1][1], [layer, [-a for a in layer]])

    one, other = (generalisation._in_order(n, split(n).params, jnp.ones((2, 4))) for n in (net(1.0), net(-1.0)))
    assert jax.tree.structure(one) == jax.tree.structure(other)
    assert one.places == other.places
    np.testing.assert_allclose(one(jnp.arange(4.0)), net(1.0)(jnp.arange(4.0)), rtol=1e-6)


def test_near_examples_say_whether_the_inputs_tell_the_labels():
    rng = np.random.default_rng(0)
    centres = 3 * rng.normal(size=(3, 4))
    y = np.arange(120) % 3
    x = jnp.asarray(centres[y] + rng.normal(size=(120, 4)), jnp.float32)
    assert _neighbourly.chance(x, y) <= _shuffled.CHANCE
    assert _neighbourly.chance(x, x[:, :1]) <= _shuffled.CHANCE
    # by chance as often as it says: of 40 orders one in twenty is below 0.05
    found = [_neighbourly.chance(x, rng.permutation(y)) for _ in range(40)]
    assert np.sum(np.array(found) < 0.05) <= binom.ppf(1 - 1e-4, 40, 0.05)
    # copies with their labels show nothing about new examples
    assert _neighbourly.chance(jnp.tile(x, (3, 1)), np.tile(rng.permutation(y), 3)) > _shuffled.CHANCE
    assert _neighbourly.chance(jnp.arange(120)[:, None], y) is None
    losses = np.array([1.0, 0.95, 1.0, 1.05, 0.9, 1.1, 1.0, 0.95])
    counted = SimpleNamespace(count=lambda: N)
    small, random = (
        _shuffled.judge(counted, losses, None, True, 300, N, by_neighbours=lambda told=told: told)
        for told in (True, False)
    )
    assert (small.mark, random.mark) == ("look", "problem")
    assert (small.headline, random.headline) == (
        "The network does not learn what near examples show",
        "The labels look random",
    )


def test_labels_that_test_data_bear_out_are_not_doubted():
    # within chance of the shuffled runs, which alone is no evidence
    losses = np.array([0.9, 0.95, 1.0, 1.05, 0.9, 1.1, 1.0, 0.95])
    counted = SimpleNamespace(count=lambda: N)
    judged = [_shuffled.judge(counted, losses, None, False, 300, N, p) for p in (False, True)]
    assert [f.mark for f in judged] == ["look", "fine"]
    errors = _gap.Errors("error", 0.0, 0.1, (0.05, 0.2), 0.6, True)
    assert errors.predicted
    assert not errors._replace(interval=(0.05, 0.7)).predicted
    assert not errors._replace(blind=None).predicted


# --- test data of another kind


def told(subject):
    return _law.measure(subject, _gap.errors_of(subject), jax.random.key(0))


@pytest.mark.parametrize("seed", SEEDS)
def test_test_inputs_that_were_prepared_in_another_way(healthy, seed):
    assert healthy[seed][_law.NAME].value == pytest.approx(50, abs=20)
    x, y = blobs(seed, TESTS)
    moved = subject(seed, test=(0.5 * x + np.where(np.arange(D) == 3, 4.0, 0.0).astype(np.float32), y))
    finding = _law.judge(told(moved))
    assert finding.mark in ("look", "problem")
    assert "most by column 3" in finding.sentence
    # back at the means and spreads of the training inputs it is right again
    action = _law.align(moved, finding)
    assert action.effect.then < 0.2
    assert action.apply(moved, key=None).error("test") == pytest.approx(action.effect.then)


def test_what_is_told_apart_and_costs_nothing_is_fine():
    x, y = blobs(0, TESTS)
    idle = np.arange(D) == 3

    def blind(params):
        return params | {"w": params["w"] * ~idle[:, None]}

    shifted = subject(0, test=(x + 5 * idle.astype(np.float32), y), params=blind)
    found = told(shifted)
    finding = _law.judge(found)
    assert finding.mark == "fine"
    assert finding.value > 90
    assert "The network bears that" in finding.sentence
    assert _law.judge(found._replace(lost=0.3)).mark == "look"
    assert _law.judge(found._replace(lost=0.9)).mark == "problem"
    assert "What that costs is not known." in _law.judge(found._replace(lost=None)).sentence


def test_test_tokens_of_another_vocabulary():
    rng = np.random.default_rng(0)
    x = rng.integers(0, 20, (300, 12))
    y = (x < 5).sum(1) > 3
    params = {"e": jnp.where(jnp.arange(60) < 5, 1.0, 0.0)[:, None] * jnp.array([[-1.0, 1.0]])}

    def bag(p, x):
        return p["e"][x].sum(-2) + jnp.array([3.5, -3.5])

    here, there = (made(bag, params, "cross_entropy", (x[:200], y[:200]), (a[200:], y[200:])) for a in (x, x + 3))
    assert here.error("test") == 0
    assert _law.judge(told(here)).mark == "fine"
    finding = _law.judge(told(there))
    assert finding.mark in ("look", "problem")
    assert _law.align(there, finding) is None


def test_another_scale_is_not_another_kind():
    x, y = blobs(0, TESTS)
    assert _law.judge(told(subject(0, test=(x / 100, y)))).mark == "fine"


@pytest.mark.parametrize("seed", SEEDS)
def test_classes_that_are_numbered_differently_in_the_test_data(healthy, seed):
    assert healthy[seed][_named.RENAMED].mark == "fine"
    x, y = blobs(seed, TESTS)
    other = subject(seed, test=(x, (y + 1) % K))
    finding = _named.judge(_named.measure(other))
    assert finding.mark == "problem"
    assert "0 is 2, 1 is 0, 2 is 1" in finding.sentence
    action = _named.rename(other, finding)
    low, high = action.effect.interval
    assert low <= action.apply(other, key=None).error("test") <= high
    assert low <= subject(seed).error("test") <= high


def test_labels_in_a_random_order_have_no_other_numbers():
    x, y = blobs(0, TESTS)
    shuffled = subject(0, test=(x, np.random.default_rng(0).permutation(y)))
    assert _named.judge(_named.measure(shuffled)).mark == "fine"
    # nor does a network that is as wrong in training
    one = subject(0, params=lambda p: p | {"v": p["v"][:, [1, 2, 0]], "c": p["c"][jnp.array([1, 2, 0])]})
    assert _named.judge(_named.measure(one)).mark == "fine"


def test_what_has_learned_no_names_has_none_that_differ():
    """Other numbers are believed of networks only that have learned the ones there are."""
    x, y = blobs(0, TESTS)
    found = _named.measure(subject(0, test=(x, (y + 1) % K)))
    assert (found.learned, _named.judge(found).mark) == (True, "problem")
    assert _named.judge(found._replace(learned=False)).mark == "fine"
    assert not _named.measure(subject(0, params=lambda _: start(0))).learned


def test_two_classes_whose_numbers_are_swapped():
    """With one output, and labels that are numbers of the squared loss."""
    x = np.random.default_rng(0).normal(size=(200, 2)).astype(np.float32)
    y = (x[:, 0] > 0).astype(np.float32)
    linear = made(lambda p, x: x @ p["w"] + 0.5, {"w": jnp.array([0.4, 0.0])}, "squared", (x, y), (x, 1 - y))
    assert _named.judge(_named.measure(linear)).mark == "problem"
    assert _named._renamed(linear, key=None).error("test") == linear.error("train")


def test_classes_that_are_one_in_training():
    """Labels that were divided by two: what was told apart is one class, and most others have another number."""
    x, y = blobs(0, N)
    merged = subject(0, (x, y // 2))
    found = _named.measure_merged(merged)
    finding = _named.judge_merged(found)
    assert finding.mark == "problem"
    assert "0 and 1 are 0" in finding.sentence
    assert _named.relabel(merged, finding).effect.then == found.then
    assert _named.judge_merged(found._replace(carried=False)).mark == "fine"
    assert _named.measure_merged(subject(0)) is None
    # test inputs that are all answered alike are not of one class
    assert _named.measure_merged(subject(0, test=(blobs(0, TESTS)[0] + 9, blobs(0, TESTS)[1]))) is None
    # a class that was never shown is answered by another one too, and that is another finding
    bx, by = blobs(0, 3 * N)
    assert _named.measure_merged(subject(0, (bx[by != 2][:N], by[by != 2][:N]))) is None


def test_a_class_that_training_never_shows(healthy):
    assert healthy[0][_named.UNKNOWN].value == 0
    x, y = blobs(0, 3 * N)
    without = subject(0, (x[y != 2][:N], y[y != 2][:N]))
    found = _named.measure_unknown(without)
    finding = _named.judge_unknown(found)
    assert finding.mark == "problem"
    assert finding.value == pytest.approx(100 * np.mean(blobs(0, TESTS)[1] == 2))
    assert "of class 2, which no training example has" in finding.sentence
    action = _named.show_them(without, finding)
    assert action.apply(without, key=None) is None
    assert action.effect.then < action.effect.now
    # one test example of a rare class is no sign of anything
    assert _named.judge_unknown(found._replace(chance=0.1)).mark == "fine"
    assert _named.judge_unknown(found._replace(errors=10 * found.errors)).mark == "look"


def test_a_gap_that_few_test_data_leave_open():
    """One test example has nearly all of the loss: neither a gap nor none."""
    open_gap = _gap.Errors("loss", 0.1, 300.0, (0.0, 700.0), 0.5, False)
    finding = _gap.gap(open_gap)
    assert finding.mark == "fine"
    assert generalisation.answer((finding,)).startswith("Cannot tell: ")
    assert "worse than a blind guess" in _gap.gap(open_gap._replace(train=0.6)).sentence
    # a loss is not negative, and its interval neither
    data, spread = (np.ones((3, 2)), np.ones((3, 1))), (np.array([[1.0, 0], [0, 1], [1e3, 0]]), np.ones((3, 1)))
    assert _gap._losses(made(lambda p, x: x @ p, jnp.ones((2, 1)), "squared", data, spread)).interval[0] == 0


def test_what_has_learned_nothing_is_no_yes():
    nothing = subject(0, params=lambda p: jax.tree.map(jnp.zeros_like, p))
    said = generalisation.answer((_gap.gap(_gap.errors_of(nothing)),))
    assert said.startswith("Cannot tell: ")
    assert "hardly beats a blind guess" in said


def test_a_temperature_that_mends_nothing_is_not_advised():
    found = _calibration.Calibration(0.2, (0.17, 0.23), 0.01, 0.9, 0.7, 4.5, 0.3, np.ones(4))
    finding = _calibration.judge(found)
    assert finding.mark == "problem"
    assert finding.sentence.endswith("No number that all outputs are divided by mends that.")
    timid = _calibration.judge(found._replace(temperature=0.25, mended=0.02))
    assert "Outputs multiplied by 4 are off by 2 on" in timid.sentence


def test_the_first_layer_behind_a_scaler_is_not_held_against_the_size_of_the_inputs():
    raw, behind = _capacity._at_unit(np.array([1 / 240, 1.0]), 240.0), _capacity._at_unit(np.array([1.0, 1.0]), 240.0)
    np.testing.assert_allclose(raw, [1, 1])
    np.testing.assert_allclose(behind, [1, 1])
    # a first layer that dominates does so in inputs of size 1
    np.testing.assert_allclose(_capacity._at_unit(np.array([500.0, 1.0, 1.0]), 1.0), [500, 1, 1])
