"""Two networks on the same examples: differences that are there are found, others are not, and files are read back."""

import json
from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import jsonschema
import numpy as np
import pytest
from made import made
from reported import reported

from corollary import Network, SubjectError
from corollary.audit import Finding, Section, compare
from corollary.audit import run as running
from corollary.audit._asked import Asked
from corollary.audit._changes import changes
from corollary.audit._child import answer
from corollary.audit._groups import groups_of
from corollary.audit._marked import failing
from corollary.audit._outcomes import outcomes_of, read_outcomes
from corollary.audit._read import read_report, schema
from corollary.audit.report import html
from corollary.evidence._errors import UserError

CLASSES, WIDTH = 10, 12


def apply(params, x):
    return jnp.tanh(x @ params["in"]) @ params["out"]


@pytest.fixture(scope="module")
def subject():
    """A network that is right on nine of ten examples, by construction: its last layer is fitted to the classes."""
    rng = np.random.default_rng(0)
    centres = 2 * rng.normal(size=(CLASSES, WIDTH))
    y = np.arange(600) % CLASSES
    x = (centres[y] + 1.6 * rng.normal(size=(600, WIDTH))).astype(np.float32)
    first = (rng.normal(size=(WIDTH, 40)) / 4).astype(np.float32)
    hidden = np.tanh(x[:200] @ first)
    last = np.linalg.lstsq(hidden, 8.0 * np.eye(CLASSES)[y[:200]], rcond=1e-3)[0].astype(np.float32)
    params = {"in": jnp.asarray(first), "out": jnp.asarray(last)}
    found = made(apply, params, "cross_entropy", (x[:200], y[:200]), (x[200:], y[200:]))
    assert 0.02 < found.error("test") < 0.3
    return found


def noisy(subject, size: float, seed: int = 1):
    keys = iter(jax.random.split(jax.random.key(seed), 2))
    return subject.at(
        jax.tree.map(lambda w: w + size * w.std() * jax.random.normal(next(keys), w.shape), subject.params)
    )


def test_a_network_does_not_differ_from_itself(subject):
    found = compare(subject, subject.network)
    assert found.verdict == "no difference seen"
    assert [t.name for t in found.tests] == ["test error", "test loss", "test Brier score", "test error of one class"]
    assert [t.p for t in found.tests] == [1.0] * 4
    np.testing.assert_allclose([a.value for a in found.agreement], 1.0, atol=1e-5)
    assert found.examples == 400
    assert "no difference seen: every example fares the same." in repr(found)
    assert repr(found).startswith("Against Network, on 400 test examples: no difference seen.\n  test error: ")


def test_a_network_with_broken_weights_is_worse_and_the_other_way_round(subject):
    broken = noisy(subject, 1.5)
    worse = compare(subject.with_network(broken), subject.network, name="old")
    assert [t.verdict for t in worse.tests[:3]] == ["worse"] * 3
    assert all(t.after - t.before > 0 for t in worse.tests[:3])
    better = compare(subject, broken)
    assert [t.verdict for t in better.tests[:3]] == ["better"] * 3
    assert all(0 < a.value < 1 for a in better.agreement)
    assert all(a.interval[0] <= a.value <= a.interval[1] for a in better.agreement)


def test_a_slight_change_is_not_seen_and_says_what_would_have_been(subject):
    found = compare(subject.with_network(noisy(subject, 0.03)), subject.network)
    assert found.verdict == "no difference seen"
    for test in found.tests[:3]:
        assert abs(test.after - test.before) < test.smallest < np.inf
        assert "would have been, four times of five" in test.sentence


def test_a_class_that_was_lost_is_named(subject):
    last = subject.params.params["out"]
    # what speaks for class 3 is what speaks for class 5, a little weaker
    broken = eqx.tree_at(lambda p: p.params["out"], subject.params, last.at[:, 3].set(0.9 * last[:, 5]))
    found = {t.name: t for t in compare(subject.with_params(broken), subject.network).tests}
    lost = found["test error of one class"]
    assert lost.verdict == "worse"
    assert lost.sentence.startswith("class 3, that changed most: ")
    assert lost.after > 0.9


def test_what_other_seeds_do_as_well_is_not_seen(subject):
    broken = subject.with_network(noisy(subject, 1.5))
    alike = [noisy(subject, 1.5, seed) for seed in (2, 3, 4)]
    found = compare(broken, subject.network, twins=alike)
    assert found.verdict == "no difference seen"
    near = [noisy(subject, 0.03, seed) for seed in range(2, 10)]
    assert compare(broken, subject.network, twins=near).verdict == "worse"


def test_few_examples_can_show_nothing(subject):
    few = subject.replaced(test=jax.tree.map(lambda a: a[:4], subject.test))
    found = compare(few, noisy(subject, 3.0))
    assert found.verdict == "no difference seen"
    assert found.tests[0].smallest == np.inf
    assert "none could have been" in found.tests[0].sentence
    json.loads(replace(reported(), comparison=found).json())


def test_regressions_and_words_are_compared_too():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 3)).astype(np.float32)
    y = (x.sum(1, keepdims=True) + 0.1 * rng.normal(size=(300, 1))).astype(np.float32)
    subject = made(lambda p, x: x @ p, jnp.ones((3, 1)), "squared", (x, y))
    found = compare(subject, Network(lambda p, x: x @ p, 0.5 * jnp.ones((3, 1)), batched=True))
    assert [(t.name, t.verdict) for t in found.tests] == [("train loss", "better")]
    assert found.agreement[0].value is None
    tokens = rng.integers(0, 50, (60, 7))
    table = jnp.asarray(rng.normal(size=(50, 4)), jnp.float32)
    words = made(lambda p, x: p[x], table, "cross_entropy", (tokens, tokens % 4))
    found = compare(words, Network(lambda p, x: p[x], table + 0.0, batched=True))
    assert [t.p for t in found.tests] == [1.0, 1.0]
    assert found.agreement[0].value == 1.0
    assert found.agreement[2].value is None
    assert 2 <= groups_of(words, "train").max() + 1 <= 10


def regression(*slopes, loss="squared"):
    """Two or more linear networks on one line of 300 points with noise 1, so that losses are near 1/2."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 1)).astype(np.float32)
    y = (x + rng.normal(size=(300, 1))).astype(np.float32)
    subject = made(lambda p, x: x @ p, jnp.full((1, 1), slopes[0]), loss, (x, y))
    return subject, [Network(lambda p, x: x @ p, jnp.full((1, 1), s), batched=True) for s in slopes[1:]]


def test_a_loss_that_another_seed_may_have_is_neither_better_nor_worse():
    # a slope that is off by 0.5 adds a quarter of the loss
    subject, (other, *twins) = regression(0.5, 1.0, 0.98, 1.02, 1.03)
    (found,) = compare(subject, other).tests
    assert found.verdict == "no difference seen"
    assert "beyond that of another seed, which may be a factor of 2; these two differ" in found.sentence
    assert found.after - found.before < found.smallest
    assert compare(subject, other, twins=twins).verdict == "worse"


def test_a_loss_that_no_other_seed_has_is_called_what_it_is():
    subject, (other,) = regression(-1.5, 1.0)
    (found,) = compare(subject, other).tests
    assert found.verdict == "worse"
    assert found.after > 2 * found.before
    assert compare(subject.with_network(other), subject.network).verdict == "better"


def test_a_loss_that_can_be_negative_has_no_factor():
    subject, (other,) = regression(0.0, 1.0, loss=lambda out, y: jnp.sum((out - y) ** 2) - 1.0)
    (found,) = compare(subject, other).tests
    assert (found.verdict, found.smallest) == ("no difference seen", np.inf)
    assert "further seeds would tell" in found.sentence


def test_classes_are_groups_where_there_are_enough(subject):
    np.testing.assert_array_equal(groups_of(subject, "test"), subject.labels("test"))


@pytest.fixture
def written(subject, tmp_path, monkeypatch):
    """The report of an audit without sections, as JSON."""
    monkeypatch.setattr(running, "SECTIONS", ())
    report = running.audit(subject)
    (tmp_path / "report.json").write_text(report.json(), encoding="utf-8")
    return tmp_path / "report.json", report


def test_a_report_stands_for_its_network(subject, written):
    path, report = written
    other = subject.with_network(noisy(subject, 1.5))
    found = [compare(other, source) for source in (path, report, subject.network)]
    assert found[0].tests == found[1].tests == found[2].tests
    assert found[0].verdict == "worse"
    assert [a.name for a in found[0].agreement] == ["predictions"]
    audited = running.audit(other, against=path, against_name="old")
    jsonschema.Draft202012Validator(schema()).validate(fields := json.loads(audited.json()))
    assert fields["comparison"]["lines"][0] == "Against old, on 400 test examples: worse."
    assert len(failing(fields, "worse")) >= 3
    assert "Against old, on 400 test examples: worse." in html(audited)


def test_outcomes_survive_the_file(subject):
    found = outcomes_of(subject)
    again = read_outcomes("r.json", json.loads(json.dumps(found.as_dict())))
    for a, b in zip(found, again, strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_allclose(found.wrong.mean(), subject.error("test"), rtol=1e-6)
    np.testing.assert_allclose(found.loss.mean(), subject.mean_loss("test"), rtol=1e-5)


def test_what_is_no_report(subject, written):
    path, _ = written
    fields = json.loads(path.read_text())
    loss = fields["examples"]["loss"]
    cut = {"examples": fields["examples"] | {"loss": loss | {"base64": "AAAA"}}}
    bad = {
        "nothing": "is not the report of an audit",
        "[" * 100_000: "is not the report of an audit",
        json.dumps({"schema": 1}): "is not the report of an audit",
        json.dumps(fields | {"schema": 2}): "is not the report of an audit",
        json.dumps(fields | {"examples": None}): "does not say how each example fared",
        json.dumps(fields | cut): "does not say how each example fared",
    }
    for text, sentence in bad.items():
        path.write_text(text, encoding="utf-8")
        with pytest.raises(SubjectError, match=sentence):
            compare(subject, path)
    with pytest.raises(SubjectError, match="none.json cannot be read: No such file"):
        read_report("none.json")
    other = subject.replaced(test=jax.tree.map(lambda a: a[::-1], subject.test))
    path.write_text(json.dumps(fields), encoding="utf-8")
    with pytest.raises(SubjectError, match="is about other test examples: networks are compared on the same ones"):
        compare(other, path)


def test_networks_that_do_not_fit(subject):
    wrong = Network(apply, {"in": jnp.ones((5, 3)), "out": jnp.ones((3, CLASSES))}, batched=True)
    with pytest.raises(SubjectError, match=r"must take the inputs of this one: network\(x\) failed for examples of"):
        compare(subject, wrong)
    fewer = Network(apply, {"in": jnp.ones((WIDTH, 3)), "out": jnp.ones((3, 4))}, batched=True)
    with pytest.raises(SubjectError, match=r"must have the outputs of this one, \(10,\), got \(4,\)"):
        compare(subject, fewer)
    with pytest.raises(TypeError, match="other must be a network, a Subject, a Report"):
        compare(subject, 3)
    with pytest.raises(TypeError, match="subject must be a Subject"):
        compare(3, subject)


def section(*findings):
    return [Section("Will it?", findings, "Yes: it will.").as_dict()]


def test_a_finding_is_worse_where_it_became_a_problem_beyond_its_interval():
    def one(old, new):
        (found,) = changes(section(new), section(old), 0.05)
        return found

    fine = Finding("a", "fine", "b", 1.0, (0.9, 1.1))
    assert one(fine, Finding("a", "problem", "b", 3.0, (2.9, 3.1))).verdict == "worse"
    assert one(Finding("a", "problem", "b", 3.0, (2.9, 3.1)), fine).verdict == "better"
    near = one(fine, Finding("a", "problem", "b", 1.1, (1.0, 1.2)))
    assert near.verdict == "no difference seen"
    np.testing.assert_allclose(near.smallest, np.hypot(0.1, 0.1), rtol=1e-3)  # one finding: nothing to correct
    assert near.turned
    look = one(fine, Finding("a", "look", "b", 3.0, (2.9, 3.1)))
    assert look.sentence == "1 → 3, fine → look: moved, and neither became a problem nor ceased to be one."
    assert (
        one(Finding("a", "fine", "b", 1.0, exact=True), Finding("a", "problem", "b", 1.01, exact=True)).verdict
        == "worse"
    )
    gone = Finding("a", "not applicable", "b")
    assert changes(section(gone), section(fine), 0.05) == ()
    unbounded = Finding("a", "problem", "b", 1.0, (0.0, np.inf))
    assert one(fine, unbounded).verdict == "no difference seen"


def test_the_command_names_what_does_not_fit(tmp_path, monkeypatch, subject):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("corollary.audit.load.load", lambda **_: subject)
    np.savez("t.npz", x=np.ones((2, 2)), y=np.ones(2))
    (tmp_path / "old.json").write_text("{}", encoding="utf-8")
    (tmp_path / "old.onnx").write_bytes(b"nothing")
    said = answer(Asked("mine.py:f", against="old.json"), lambda _: None)
    assert said[0] == "refused"
    assert "old.json is not the report of an audit as JSON" in said[1]
    said = answer(Asked("mine.py:f", against="old.onnx"), lambda _: None)
    assert said[0] == "refused"
    assert said[1].startswith("old.onnx cannot be set beside this network: ")


@pytest.mark.parametrize(
    ("against", "sentence"),
    [
        ("none.onnx", "none.onnx is not a file"),
        ("old.txt", "--against takes an .onnx file, a .json report or file.py:function, got 'old.txt'"),
        ("none.py:f", "none.py is not a file"),
    ],
)
def test_what_can_be_compared_with(against, sentence):
    from corollary.audit._asked import require

    with pytest.raises(UserError, match=sentence):
        require(Asked(None, against=against))
    assert Asked("a.onnx", against="b.onnx").command == "corollary audit a.onnx --against b.onnx"
