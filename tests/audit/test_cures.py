"""Cures: the first action is applied, and the section looks again. What was found is gone, nothing worse has come."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from made import made

from corollary.audit import Action, Effect, Finding, Subject, SubjectError
from corollary.audit._budget import BUDGETS
from corollary.audit.action import advise, by_hand, ranked
from corollary.audit.finding import causes
from corollary.audit.retrain import optimiser_of, retrained
from corollary.audit.sections import (
    _calibration,
    _columns,
    _copies,
    _overfitting,
    _statistics,
    _stopping,
    _treatments,
    generalisation,
    trainability,
)
from zoo import ZOO, X, Y, network

KEY = jax.random.key(0)


def found(section, subject, until=None):
    """The findings of a section, up to one of them: what follows is not computed."""
    out = []
    for finding in section.findings(subject, BUDGETS["quick"], KEY):
        out.append(finding)
        if finding.name == until:
            break
    return tuple(out)


def advised(section, subject, findings):
    return ranked(section.actions(subject, findings), causes(findings, section.EXPLAINS))


def marks(findings):
    return {f.name: f.mark for f in findings}


SLOW = (lambda: network(eta=2e-4), trainability, "steps to fit")
SICK = {name: ZOO[name] for name in ("vanishing", "dead ReLU", "saturated softmax", "wrong input scaling")}
SICK |= {name: ZOO[name] for name in ("constant predictor", "step above 2/sharpness")} | {"too slow": SLOW}


@pytest.mark.parametrize("name", SICK)
def test_the_first_action_cures(name):
    make, section, what = SICK[name]
    sick = make()
    before = found(section, sick)
    assert causes(before, section.EXPLAINS)[0].finding.name == what
    assert section.answer(before).startswith("No")
    first = advised(section, sick, before)[0]
    assert first.treats == what
    treated = first.apply(sick, key=KEY)
    after = marks(found(section, treated))
    assert after.get(what, "fine") == "fine"
    assert "problem" not in after.values()
    low, high = first.effect.interval
    assert low <= first.effect.measured(treated) <= high < first.effect.now


def test_an_action_for_another_disease_leaves_it():
    sick = network(lambda start: [[0.05 * w, b] for w, b in start])
    treated = _treatments.trained_after(_treatments.standardised, sick, key=KEY)
    assert marks(found(trainability, treated, "signal by layer"))["signal by layer"] == "problem"


# --- leaks


def split_blobs(n=160):
    return (X[:n], Y[:n]), (X[n:], Y[n:])


def subject(train, test):
    start = {"w": jnp.zeros((8, 3))}
    known = dict(initial=start, learning_rate=0.5, steps=200)
    raw = made(lambda p, x: x @ p["w"], start, "cross_entropy", train, test, **known)
    return retrained(raw, key=KEY)


def test_test_rows_are_removed_from_the_training_data():
    train, test = split_blobs()
    leaked = tuple(np.concatenate([a, b[:30]]) for a, b in zip(train, test, strict=True))
    sick = subject(leaked, test)
    action = _copies.remove(sick, None)
    assert action.what == "remove 30 test examples from the training data"
    treated = action.apply(sick, key=KEY)
    assert treated.count() == 160
    assert _copies.finding(treated, KEY).mark == "fine"
    low, high = action.effect.interval
    assert low <= action.effect.measured(treated) <= high


def test_a_column_made_from_the_label_is_dropped():
    (x, y), (x_test, y_test) = split_blobs()
    leak = [np.concatenate([a[:, :-1], b[:, None] + 0.1 * a[:, -1:]], 1) for a, b in ((x, y), (x_test, y_test))]
    sick = subject((leak[0].astype(np.float32), y), (leak[1].astype(np.float32), y_test))
    action = _columns.drop(sick, None)
    assert action.what == "drop column 7"
    treated = action.apply(sick, key=KEY)
    assert _columns.finding(treated).mark == "fine"
    np.testing.assert_allclose(np.asarray(treated.test[0])[:, 7], np.asarray(sick.train[0])[:, 7].mean(), rtol=1e-5)
    assert action.effect.measured(treated) == pytest.approx(action.effect.then, abs=1e-3)


def test_logits_times_ten_are_cooled():
    train, test = split_blobs()
    noisy = np.where(np.random.default_rng(0).random(80) < 0.3, (test[1] + 1) % 3, test[1])
    calm = subject(train, (test[0], noisy))
    sick = calm.with_params(jax.tree.map(lambda a: 10 * a, calm.params))
    found = _calibration.finding(sick)
    assert found.mark in ("look", "problem")
    action = _calibration.cool(sick, found)
    treated = action.apply(sick, key=KEY)
    assert _calibration.finding(treated).mark == "fine"
    assert action.effect.interval[0] <= action.effect.measured(treated) <= action.effect.interval[1]
    np.testing.assert_array_equal(treated.predict("test"), sick.predict("test"))
    assert treated.initial_params is not None
    # a calibrated network, whose labels are drawn from its own probabilities, is left alone
    own = jax.nn.softmax(calm.outputs("test"))
    drawn = jax.random.categorical(KEY, jnp.log(own))
    assert _calibration.finding(calm.replaced(test=(calm.test[0], drawn))).mark == "fine"


def test_random_labels_are_a_matter_for_a_person():
    marked = Finding("labels against shuffled ones", "problem", "No faster.", 0.0, exact=True)
    gap = Finding("gap between training and test error", "problem", "By heart.", 0.5, exact=True)
    train, test = split_blobs()
    (action,) = advised(generalisation, subject(train, test), (gap, marked))
    assert action.what == "find out where the labels come from"
    assert action.apply is by_hand
    assert by_hand(None, key=KEY) is None


def test_overfitting_is_stopped_early():
    """Labels of which a third are wrong: the least loss on held-out examples comes long before the end."""
    rng = np.random.default_rng(0)
    (x, y), test = split_blobs()
    wide = [np.concatenate([a, rng.normal(size=(len(a), 72))], 1).astype(np.float32) for a in (x, test[0])]
    wrong = np.where(rng.random(len(y)) < 0.33, rng.integers(0, 3, len(y)), y)
    start = {"w": jnp.zeros((80, 3))}
    known = dict(initial=start, learning_rate=2.0, steps=400)
    raw = made(lambda p, x: x @ p["w"], start, "cross_entropy", (wide[0], wrong), (wide[1], test[1]), **known)
    sick = retrained(raw, key=KEY)
    action = _stopping.stop(sick, Finding("gap between training and test error", "look", "", 0, exact=True))
    assert action.what.endswith("of 400")
    treated = action.apply(sick, key=KEY)
    assert treated.mean_loss("test") < sick.mean_loss("test")
    assert action.effect.interval[0] <= action.effect.measured(treated) <= action.effect.interval[1]


def peak(examples=240, features=240):
    """Least squares with as many features as examples, and noise: the variance of its weights is at its peak."""
    rng = np.random.default_rng(0)
    w = rng.normal(size=(features, 1)) / np.sqrt(features)
    draws = [rng.normal(size=(n, features)) for n in (examples, 400)]
    train, test = (
        (x.astype(np.float32), (x @ w + 0.5 * rng.normal(size=(len(x), 1))).astype(np.float32)) for x in draws
    )
    start = jnp.zeros((features, 1), jnp.float32)
    known = dict(initial=start, learning_rate=0.2, steps=2000)
    return retrained(made(lambda p, x: x @ p, start, "squared", train, test, **known), key=KEY)


MARKED = Finding("gap between training and test loss", "problem", "", 0, exact=True)


def test_at_the_interpolation_peak_weights_decay():
    sick = peak()
    action = _overfitting.decay(sick, MARKED)
    assert action.what == "decay the weights by 0.1"
    treated = action.apply(sick, key=KEY)
    low, high = action.effect.interval
    assert low <= action.effect.measured(treated) <= high < sick.mean_loss("test")
    # with an optimiser of its own the decay goes before it
    own = sick.replaced(optimiser=optax.sgd(0.2), learning_rate=None)
    assert _overfitting.decay(own, MARKED).apply(own, key=KEY).mean_loss("test") == pytest.approx(
        treated.mean_loss("test"), rel=1e-3
    )


def test_of_stopping_and_decay_the_better_is_advised():
    sick = peak()
    advice = [_stopping.stop(sick, MARKED), _overfitting.decay(sick, MARKED)]
    best = min(advice, key=lambda action: action.effect.then)
    assert _overfitting.mend(sick, MARKED).what == best.what


def test_where_neither_helps_more_examples_are_asked_for():
    """A linear model without noise that has fewer examples than features: only more of these say what is missing."""
    rng = np.random.default_rng(0)
    w = rng.normal(size=(40, 1))
    train, test = ((x.astype(np.float32), (x @ w).astype(np.float32)) for x in rng.normal(size=(2, 32, 40)))
    start = jnp.zeros((40, 1), jnp.float32)
    known = dict(initial=start, learning_rate=0.05, steps=600)
    sick = retrained(made(lambda p, x: x @ p, start, "squared", train, test, **known), key=KEY)
    action = _overfitting.mend(sick, MARKED)
    assert (action.what, action.apply) == ("collect 32 more examples", by_hand)
    assert action.effect.then < 0.9 * action.effect.now


def test_a_test_set_of_another_law_is_for_a_person():
    """Shifted labels: a shorter training would not help, and held-out training examples say so."""
    x, y = split_blobs()[1]
    finding = Finding("gap between training and test error", "problem", "", 0, exact=True)
    action = _stopping.stop(subject(split_blobs()[0], (x, (y + 1) % 3)), finding)
    assert action.apply is by_hand
    assert action.what.startswith("find out how the test data")
    low, high = action.effect.interval
    assert low < subject(split_blobs()[0], (x, y)).mean_loss("test") < high < action.effect.now


def test_a_training_that_does_not_get_worse_is_not_stopped():
    finding = Finding("gap between training and test error", "look", "", 0, exact=True)
    assert _stopping.stop(subject(*split_blobs()), finding) is None


def test_inputs_are_scaled_where_the_trained_weights_overflow_at_the_new_scale():
    sick = network(x=1e-10 * X, eta=1e-6)
    grown = sick.with_params(jax.tree.map(lambda a: 1e9 * a if a.ndim == 2 else a, sick.params))
    with pytest.raises(SubjectError, match="finite"):
        grown.replaced(train=(1e10 * grown.train[0], grown.train[1]))
    treated = _treatments.trained_after(_treatments.standardised, grown, key=KEY)
    assert np.isfinite(treated.mean_loss("train"))


def test_a_remedy_that_diverges_is_none():
    def diverges(subject, finding):
        raise SubjectError("trained again, the loss is not finite.")

    marked = [Finding("a", "look", "", 0, exact=True)]
    assert list(advise(None, marked, {}, {"a": diverges})) == []


def test_stale_statistics_are_recomputed():
    from test_statistics import LESS, X, Y, of_ours

    stale = Subject(of_ours(True), "cross_entropy", (X, Y))
    finding = _statistics.finding(stale, LESS, KEY)
    action = _statistics.recompute(stale, finding)
    treated = action.apply(stale, key=KEY)
    again = _statistics.finding(treated, LESS, KEY)
    assert (finding.mark, again.mark) == ("problem", "fine")
    assert action.effect.measured(treated) == pytest.approx(action.effect.then)
    # beside the fresh network, whose statistics are those of all the data
    fresh = Subject(of_ours(False), "cross_entropy", (X, Y))
    np.testing.assert_allclose(treated.outputs("train"), fresh.outputs("train"), atol=0.2)


# --- training again


def test_what_is_known_of_a_training_is_used():
    given = network().replaced(optimiser=optax.adam(0.05), learning_rate=0.05)
    assert optimiser_of(given).update is not None
    half = given.replaced(learning_rate=0.025)
    grads = jax.tree.map(jnp.ones_like, given.params)
    steps = [o.update(grads, o.init(given.params), given.params)[0] for o in (optimiser_of(given), optimiser_of(half))]
    for a, b in zip(*map(jax.tree.leaves, steps), strict=True):
        np.testing.assert_allclose(b, a / 2, rtol=1e-6)
    decayed = optimiser_of(network().replaced(weight_decay=0.5))
    update = decayed.update(grads, decayed.init(given.params), given.params)[0]
    expected = jax.tree.map(lambda g, p: -0.05 * (g + 0.5 * p), grads, given.params)
    for a, b in zip(*map(jax.tree.leaves, (update, expected)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)


def test_bad_facts_are_one_sentence():
    start = [[jnp.ones((8, 3)), jnp.zeros(3)]]
    with pytest.raises(SubjectError, match="optimiser must be an Optax transformation"):
        made(lambda p, x: x @ p[0][0], start, "cross_entropy", (X, Y), optimiser="adam")
    with pytest.raises(SubjectError, match="weight_decay must be"):
        made(lambda p, x: x @ p[0][0], start, "cross_entropy", (X, Y), weight_decay=-1.0)
    with pytest.raises(SubjectError, match="no fact 'step' to be replaced"):
        network().replaced(step=3)


def test_a_training_that_diverges_is_a_sentence():
    start = {"w": jnp.ones((8, 3))}
    known = dict(initial=start, learning_rate=1e30, steps=50)
    wild = made(lambda p, x: x @ p["w"], start, "squared", (X, np.eye(3, dtype=np.float32)[Y]), **known)
    with pytest.raises(SubjectError, match="trained again, the loss is not finite"):
        retrained(wild, key=KEY)


# --- actions


def finding(name, mark="problem"):
    return Finding(name, mark, f"{name}.", 1.0, exact=True)


def action(treats, then=0.5, cost=1.0):
    return Action(f"treat {treats}", treats, Effect("training loss", 1.0, then, (0.0, 1.0)), "theorem", by_hand, cost)


def test_causes_come_first_and_five_at_the_most():
    tree = causes([finding("a"), finding("b"), finding("c", "look"), finding("d")], {"a": ("b",), "x": ("d",)})
    advice = [action("b"), action("c", 0.0), action("d"), action("a", 0.9), action("e")]
    # b follows from a, which has an action; e was not found; a look comes after the problems
    assert [a.treats for a in ranked(advice, tree)] == ["d", "a", "c"]
    assert [a.treats for a in ranked([action("b")], tree)] == ["b"]
    assert [a.cost for a in ranked([action("a"), action("a", cost=0.1)], tree)] == [0.1, 1.0]
    assert len(ranked([action("a")] * 9, tree)) == 5


def test_an_action_says_how_it_is_known_and_measured():
    with pytest.raises(ValueError, match="how_known must be one of theorem, short run, population"):
        Action("a", "b", Effect("training loss", 1, 0, (0, 0)), "hearsay", by_hand)
    with pytest.raises(ValueError, match="needs measure"):
        Effect("beauty", 1, 0, (0, 0))
    with pytest.raises(ValueError, match="then must lie in the interval"):
        Effect("test error", 1, 2, (0, 1))
    assert Effect("beauty", 1, 0, (0, 0), measure=lambda subject: 3).measured(None) == 3
