"""A network along its training: curves, when marks turned, what turned first, and checkpoints that are of another."""

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

from corollary import Network, Subject, SubjectError
from corollary.audit import Cause, Course, Finding, Section, audit_path
from corollary.audit import run as running
from corollary.audit._asked import Asked, require
from corollary.audit._checkpoints import checkpoints
from corollary.audit._child import answer
from corollary.audit._markdown import markdown
from corollary.audit._read import schema
from corollary.audit.path import at_checkpoint
from corollary.audit.report import html

STEPS = (100, 200, 300, 400)
MARKS = {
    "healed": ("look", "look", "fine", "fine"),
    "cause": ("fine", "fine", "look", "problem"),
    "effect": ("fine", "fine", "look", "look"),
    "late": ("fine", "look", "fine", "problem"),
    "always": ("problem", "problem", "problem", "problem"),
    "quiet": ("fine", "fine", "fine", "fine"),
}


def report_at(i: int):
    found = [Finding(n, m[i], "It is so.", float(i), exact=True) for n, m in reversed(MARKS.items())]
    if i == 0:
        found[-1] = Finding("healed", "not applicable", "Not yet.")
    cause = (Cause(Finding("cause", "problem", "It is so.", 1.0, exact=True)),) if i == 3 else ()
    return replace(reported(), sections=(Section("Will it?", tuple(found), "No: it is so."),), causes=cause)


@pytest.fixture(scope="module")
def course():
    return Course(STEPS, tuple(map(report_at, range(4))))


def test_marks_turn_where_they_do(course):
    curves = {c.name: c for c in course.curves}
    assert list(curves) == list(reversed(MARKS))
    assert curves["cause"].turns == ((300, "fine", "look"), (400, "look", "problem"))
    assert curves["late"].turns == ((200, "fine", "look"), (300, "look", "fine"), (400, "fine", "problem"))
    assert curves["healed"].values == (None, 1.0, 2.0, 3.0)
    assert {name: c.onset for name, c in curves.items()} == dict(
        healed=None, cause=300, effect=300, late=400, always=100, quiet=None
    )
    assert curves["quiet"].sentence == "0 → 3; fine all the way."
    assert curves["healed"].sentence == "1 → 3; look → fine at step 300."
    assert [c.name for c in course.turned] == ["cause", "effect", "late", "healed"]


def test_causes_come_first_of_what_turned_first(course):
    assert course.first == ("cause", "effect")
    assert course.answer == "Of what is marked at the end cause turned first, at step 300, with effect."
    assert repr(course).startswith("Along the training (4 checkpoints, steps 100 to 400): Of what is marked")
    early = Course((1, 2), tuple(map(report_at, (0, 1))))
    assert early.answer == "Of what is marked at the end late turned first, at step 2, with healed."
    one = Course((1,), (report_at(3),))
    assert one.answer == "What is marked at the end was so from the first checkpoint on: always, late, effect, cause."
    none = replace(reported(), sections=(), causes=())
    assert Course((1,), (none,)).answer == "Nothing is marked at the end."


def test_the_course_is_in_every_form(course):
    report = replace(reported(), course=course)
    fields = json.loads(report.json())
    jsonschema.Draft202012Validator(schema()).validate(fields)
    assert fields["course"]["first"] == ["cause", "effect"]
    page = html(report)
    assert "Of what is marked at the end cause turned first" in page
    assert page.count("<img") == 4
    assert "### Along the training" in markdown(fields, None)


def apply(params, x):
    return jnp.tanh(x @ params["in"]) @ params["out"]


@pytest.fixture(scope="module")
def subject():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(64, 5)).astype(np.float32)
    y = (x.sum(1) > 0).astype(int)
    params = {"in": jnp.asarray(rng.normal(size=(5, 7)), jnp.float32), "out": jnp.asarray(rng.normal(size=(7, 2)) / 3)}
    return made(apply, jax.tree.map(lambda a: a.astype(jnp.float32), params), "cross_entropy", (x, y))


def scaled(subject, factor):
    return subject.at(jax.tree.map(lambda w: factor * w, subject.params))


def test_checkpoints_are_audited_with_one_program(subject, monkeypatch):
    monkeypatch.setattr(running, "SECTIONS", ("noise",))
    compiled, counts = [], []

    def heard(event, _, **__):
        if event.endswith("backend_compile_duration"):
            compiled.append(event)

    def progress(title):
        counts.append((title, len(compiled)))

    jax.monitoring.register_event_duration_secs_listener(heard)
    networks = [scaled(subject, factor) for factor in (0.5, 0.8, 1.0, 1.2)]
    course = audit_path(subject, networks, steps=STEPS, progress=progress)
    assert [title for title, _ in counts] == [f"Step {step}" for step in STEPS]
    first, *later = np.diff([n for _, n in counts] + [len(compiled)])
    assert first > 5
    assert sum(later) == 0
    found = {c.name: c for c in course.curves}["noise scale"]
    assert len(set(found.values)) == 4
    assert course.reports[2].subject["train"]["loss"] == pytest.approx(subject.mean_loss(), rel=1e-6)


def test_what_is_not_of_this_training(subject):
    wrong = Network(apply, {"in": jnp.ones((5, 3)), "out": jnp.ones((3, 2))}, batched=True)
    with pytest.raises(SubjectError, match=r"c.onnx is of another architecture: .*must have shape \(5, 7\)"):
        at_checkpoint(subject, wrong, "c.onnx")
    other = Network(lambda p, x: jax.nn.relu(x @ p["in"]) @ p["out"], subject.params.params, batched=True)
    with pytest.raises(SubjectError, match="c.onnx is of another architecture: its arrays fit, but give other outputs"):
        at_checkpoint(subject, other, "c.onnx")
    named = Network(apply, {"first": jnp.ones((5, 7)), "out": jnp.ones((7, 2))}, batched=True)
    with pytest.raises(SubjectError, match="is of another architecture: .*structure of the network"):
        audit_path(subject, [named])
    with pytest.raises(SubjectError, match="at least one checkpoint"):
        audit_path(subject, [])
    for steps in ([2, 1], [1], [1.5, 2], [-1, 2]):
        with pytest.raises(SubjectError, match="steps must be 2 whole numbers in increasing order"):
            audit_path(subject, [subject.network] * 2, steps=steps)
    with pytest.raises(TypeError, match="subject must be a Subject"):
        audit_path(3, [])


def test_buffers_come_from_the_checkpoint():
    x = np.linspace(-1, 1, 24, dtype=np.float32).reshape(12, 2)

    def network(shift):
        return Network(lambda p, b, x: x @ p + b, jnp.ones((2, 1)), shift * jnp.ones(1), batched=True)

    subject = Subject(network(0.0), "squared", (x, x.sum(1, keepdims=True)))
    there = at_checkpoint(subject, network(2.0), "c")
    np.testing.assert_allclose(there.outputs("train"), subject.outputs("train") + 2.0, rtol=1e-6)


@pytest.mark.parametrize(
    ("names", "steps", "order"),
    [
        (["net-9.onnx", "net-10.onnx"], (9, 10), ["net-9.onnx", "net-10.onnx"]),
        (["b-5.eqx", "a-70.eqx"], (5, 70), ["b-5.eqx", "a-70.eqx"]),
        (["last.onnx", "first.onnx"], (1, 2), ["first.onnx", "last.onnx"]),
        (["a9-1.onnx", "a10-1.onnx"], (1, 2), ["a9-1.onnx", "a10-1.onnx"]),
    ],
)
def test_files_are_in_the_order_of_their_steps(tmp_path, names, steps, order):
    for name in names:
        (tmp_path / name).write_bytes(b"")
    found = checkpoints(str(tmp_path / "*"))
    assert found == (steps, tuple(str(tmp_path / name) for name in order))


def test_patterns_that_find_nothing(tmp_path):
    with pytest.raises(SubjectError, match="finds no file"):
        require(Asked(None, checkpoints=str(tmp_path / "*")))
    (tmp_path / "net.pt").write_bytes(b"")
    with pytest.raises(SubjectError, match="a checkpoint is an .onnx or an .eqx file, got"):
        require(Asked(None, checkpoints=str(tmp_path / "*")))
    assert Asked(None, checkpoints="a/*").command == "corollary audit --checkpoints 'a/*'"


def test_the_command_reads_what_equinox_wrote(subject, tmp_path, monkeypatch):
    monkeypatch.setattr("corollary.audit.load.load", lambda **_: subject)
    monkeypatch.setattr(running, "SECTIONS", ())
    for step, factor in ((10, 0.5), (20, 1.0)):
        eqx.tree_serialise_leaves(tmp_path / f"{step}.eqx", scaled(subject, factor))
    kind, page, findings = answer(Asked(None, checkpoints=str(tmp_path / "*.eqx")), lambda _: None)
    assert kind == "report"
    assert "Along the training (2 checkpoints, steps 10 to 20)" in page
    assert json.loads(findings)["course"]["steps"] == [10, 20]
    (tmp_path / "30.eqx").write_bytes(b"nothing")
    kind, sentence = answer(Asked(None, checkpoints=str(tmp_path / "*.eqx")), lambda _: None)
    assert kind == "refused"
    assert "30.eqx is of another architecture, or no checkpoint" in sentence
