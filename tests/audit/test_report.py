"""The report: one file that needs nothing else, and a section that fails without the others."""

import itertools
import json
import re
import shutil
import subprocess
import types
from dataclasses import replace

import altair as alt
import jax.numpy as jnp
import numpy as np
import pytest
from made import made
from reported import reported

from corollary.audit import Action, Cause, Effect, Finding, Premise, Report, Section, SubjectError
from corollary.audit import run as running
from corollary.audit._accepted import Accepted
from corollary.audit._asked import Asked
from corollary.audit._effects import effect_line
from corollary.audit._style import STYLE
from corollary.audit.action import by_hand
from corollary.audit.finding import short
from corollary.audit.report import html
from corollary.audit.run import Trial
from corollary.evidence import picture


def finding(mark="fine", **fields):
    chart = alt.Chart(alt.Data(values=[{"a": 1, "b": 2}, {"a": 2, "b": 1}])).mark_line().encode(x="a:Q", y="b:Q")
    known = dict(value=1.5, exact=True, theorem="A <theorem>.", claim="linear.regression_step_size.sharp_threshold")
    known |= dict(premises=(Premise("it is so", True, "seen"),), figure=picture("a line", chart))
    return Finding("a number & more", mark, "What follows <from> it.", **(known | fields))


@pytest.fixture
def report():
    sections = (
        Section("Will it?", (finding(), finding("problem")), "No: <because>."),
        Section("Did it?", failed="This section stopped: nothing there."),
        Section("Unknown", (Finding("a", "not applicable", "No initial parameters were given."),)),
    )
    split = {"examples": 10, "loss": 0.5, "error": 0.25}
    subject = dict(parameters=1234, leaves=2, inputs=[[8, 8]], loss="cross_entropy", classes=3, notes=["A note."])
    subject |= dict(learning_rate=0.1, batch_size=None, train=split, test=split, left_out="This was left out.")
    subject |= dict(name="mine.onnx <1>", date="1 May 2030, 12:00", command="corollary audit mine.onnx")
    effect = Effect("training loss", 1.0, 0.5, (0.4, 0.6))
    actions = tuple(Action(f"divide the step by {i}", "a number & more", effect, "theorem", by_hand) for i in (2, 3))
    causes = (Cause(finding("problem"), (finding("look"),)),)
    return Report(subject, sections, "quick", 1.0, causes, actions, (Trial(actions[0], 0.45),))


def test_the_worst_finding_marks_a_section(report):
    assert [s.mark for s in report.sections] == ["problem", "problem", "not applicable"]
    # what cannot tell is not fine, whatever was measured on the way; what is marked stays marked
    unknown = "Cannot tell: there are no test data."
    assert Section("Is it?", (finding(),), unknown).mark == "not applicable"
    assert Section("Is it?", (finding("look"),), unknown).mark == "look"
    assert report.sections[0].answer == "No: <because>."
    assert len(report.findings) == 3


def test_the_page_is_whole_and_loads_nothing(report, tmp_path):
    page = html(report)
    assert page.count("<img") == 2
    # addresses inside the drawings' own namespaces are encoded; nothing else may name another place
    assert not re.findall(r"(?:https?:)?//[a-z]", re.sub(r"base64,[A-Za-z0-9+/=]+", "", page))
    assert "<script" not in page
    assert "What follows &lt;from&gt; it." in page
    assert "A note." in page
    assert "This was left out." in page
    report.save(tmp_path / "r.html")
    assert (tmp_path / "r.html").read_text(encoding="utf-8") == page


def test_the_first_screen_says_what_is_wrong_and_what_to_do(report):
    page = html(report)
    first, rest = page.split("<nav", 1)
    assert "mine.onnx &lt;1&gt;" in first
    assert "1 May 2030, 12:00" in first
    assert "corollary audit mine.onnx" in first
    assert "From it follow: a number &amp; more." in first
    assert first.index("Divide the step by 2") < first.index("Divide the step by 3")
    assert "training loss 1 → 0.5 [0.4, 0.6]" in first
    assert "Tried: training loss 0.45, inside what was promised." in first
    # what is fine, and the theory, is folded
    assert rest.index("✕") < rest.index("<details><summary>1 fine")
    assert all("<div>A &lt;theorem&gt;" not in part.split("</details>", 1)[-1] for part in rest.split("<details")[1:])


def test_a_healthy_network_gets_nothing_to_do(report):
    healthy = Report(report.subject, (Section("Will it?", (finding(),), "Yes: it will."),), "quick", 1.0)
    assert healthy.advice == "Nothing to do. How many numbers were measured for each question: Will it? 1."
    assert "Nothing to do." in html(healthy)
    assert "Nothing, in all that was looked at." in html(healthy)
    stuck = Report(report.subject, report.sections, "quick", 1.0, report.causes)
    assert stuck.advice == "No action is known for: a number & more."


def test_a_cause_has_the_mark_of_the_worst_that_follows_from_it(report):
    worse = Report(report.subject, (), "quick", 1.0, (Cause(finding("look"), (finding("problem"),)),))
    first = html(worse).split("What to do")[0]
    assert "problem</span><b class='headline'>a number &amp; more</b>" in first
    assert "look at this" not in first


def test_a_headline_stands_first_and_the_name_beside_it(report):
    wrong = finding("problem", headline="It is <off>")
    said = replace(report, sections=(Section("Will it?", (wrong,), "No: it is."),), causes=(Cause(wrong, (wrong,)),))
    page = html(said)
    first, rest = page.split("<nav", 1)
    assert "<span class='small'>a number &amp; more</span><b class='headline'>It is &lt;off&gt;</b>" in first
    assert "From it follow: it is &lt;off&gt;." in first
    assert "For “It is &lt;off&gt;”." in first
    many = html(replace(said, causes=(Cause(wrong, (wrong,) * 6),)))
    assert f"From it follow: {'; '.join(['it is &lt;off&gt;'] * 4)}, and 2 more." in many
    assert "<h3>It is &lt;off&gt;</h3> <span class='small'>a number &amp; more</span>" in rest
    assert replace(said, actions=()).advice == "No action is known for: It is <off>."


def test_what_only_a_person_can_do_is_not_said_to_have_been_tried(report):
    said = replace(report, trials=(running.tried(report.actions[0], None, None),))
    assert "a person must do it." in html(said)
    assert "Tried" not in html(said)


def test_effects_are_told_in_per_cent_and_only_as_far_as_they_are_known():
    assert effect_line("test error", 0.98, 0.5, (0.4, 0.6)) == "test error 98 % → 50 % [40 %, 60 %]"
    assert effect_line("training loss", 0.98, 0.5, (0.4, 0.6)) == "training loss 0.98 → 0.5 [0.4, 0.6]"
    moved = effect_line("outputs that move with later tokens", 50.46, 0.0, (0.0, 0.01))
    assert moved == "outputs that move with later tokens 50.5 % → 0 % [0 %, 0.01 %]"
    unknown = effect_line("test error", 0.98, 0.98, (0.0, 0.98))
    assert unknown == "test error 98 % → not known"


def test_what_flattered_is_said_beside_the_effect(report):
    action = replace(report.actions[0], note="The error now flatters.")
    assert "a person must do it. The error now flatters." in html(replace(report, actions=(action,)))


def test_what_trains_nothing_is_not_known_by_trainings(report):
    action = replace(report.actions[0], how_known="short run", apply=lambda subject, *, key: subject)
    assert "known by short trainings." in html(replace(report, actions=(action,)))
    assert "known by measuring it on these data." in html(replace(report, actions=(replace(action, cost=0.1),)))


def test_a_phone_reads_what_to_do_under_what_is_wrong(report):
    # of two actions the first, which is hidden where both boxes stand side by side
    assert "<div class='remedy'>To do: divide the step by 2.</div>" in html(report).split("What to do")[0]
    assert ".remedy { display: none;" in STYLE.partition("@media (max-width")[0]
    assert ".remedy { display: block; }" in STYLE.partition("@media (max-width")[2]
    assert "class='remedy'" not in html(replace(report, actions=()))


def test_a_section_that_nothing_could_answer_says_so(report):
    page = html(report)
    place = page.index("<section id='s2'>")
    assert "cannot tell</span>" in page[place : page.index("not measured", place)]


def test_an_action_that_cannot_be_tried_says_why(report):
    def fails(subject, *, key):
        raise SubjectError("trained again, the loss is not finite at step 3.")

    by_person = running.tried(report.actions[0], None, None)
    assert by_person.line == "Tried: a person must do this."
    other = Action("a", "b", report.actions[0].effect, "theorem", fails)
    assert running.tried(other, None, None).line == "Tried: trained again, the loss is not finite at step 3."


def test_the_command_stands_in_the_report():
    asked = Asked("a b.onnx", train="t.npz", inputs={"x": "ids"}, parameters=["W", "V"], learning_rate=0.1, attempts=2)
    words = "corollary audit 'a b.onnx' --train t.npz --input x=ids --parameters W,V --learning-rate 0.1 --try 2"
    assert asked.command == words
    assert Asked(None).command == "corollary audit"


def test_the_report_as_json(report):
    fields = json.loads(json.dumps(report.as_dict()))
    assert fields["sections"][0]["findings"][0]["value"] == 1.5
    assert fields["sections"][1]["failed"].startswith("This section stopped")


def test_a_finding_says_how_certain_it_is():
    with pytest.raises(ValueError, match="must have an interval or say that it is exact"):
        Finding("a", "fine", "b", 1.0)
    with pytest.raises(ValueError, match="must say that it is not applicable"):
        Finding("a", "fine", "b")
    with pytest.raises(ValueError, match="mark must be one of"):
        Finding("a", "good", "b", 1.0, exact=True)
    assert Finding("a", "fine", "b", 12345.6, (1e-7, 1e7)).number == "12,300 [1.00e-07, 1.00e+07]"
    # an interval that three digits do not tell from the value is left out
    assert Finding("a", "fine", "b", 1.1137, (1.1136, 1.1138), unit="m").number == "1.11 m"
    assert Finding("a", "fine", "b", 1.1137, (1.1136, 1.12), unit="m").number == "1.11 m [1.11, 1.12]"
    assert Finding("a", "fine", "b", 174.0, (52.8, np.inf)).number == "174 [52.8, ∞]"


def test_a_section_that_fails_keeps_what_it_found():
    def findings(subject, budget, key):
        yield finding()
        raise FloatingPointError("it diverged\nand more")

    module = types.SimpleNamespace(TITLE="Breaks", findings=findings, EXPLAINS={})
    section = running._section(module, None, None, None)
    assert section.failed == "This section stopped: it diverged"
    assert len(section.findings) == 1
    assert section.mark == "problem"
    assert section.answer == "Cannot tell: this section stopped: it diverged"


def test_a_wrong_budget_and_a_wrong_subject():
    x = np.ones((4, 2), np.float32)
    subject = made(lambda p, x: x @ p, jnp.ones((2, 1)), "squared", (x, np.ones((4, 1), np.float32)))
    with pytest.raises(ValueError, match="budget must be one of"):
        running.audit(subject, budget="huge")
    with pytest.raises(TypeError, match="subject must be a Subject"):
        running.audit(3)


def test_every_figure_renders_in_a_browser(report, tmp_path):
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("no Chromium is installed")
    report.save(tmp_path / "r.html")
    script = "<script>document.title = [...document.images].map(i => i.naturalWidth > 50).join()</script></body>"
    page = (tmp_path / "r.html").read_text(encoding="utf-8").replace("</body>", script)
    (tmp_path / "p.html").write_text(page, encoding="utf-8")
    quiet = "--disable-gpu --disable-quic --no-first-run --disable-background-networking --disable-component-update"
    command = [chromium, "--headless", "--no-sandbox", *quiet.split(), "--disable-sync"]
    command += [f"--user-data-dir={tmp_path / 'user'}", "--virtual-time-budget=5000", "--dump-dom"]
    done = subprocess.run([*command, (tmp_path / "p.html").as_uri()], capture_output=True, text=True, timeout=120)
    assert "<title>true,true</title>" in done.stdout, done.stdout[:500] + done.stderr[-500:]


def test_numbers_have_three_digits():
    found = [short(x) for x in (0.0, 1 / 3, 999.9999, 12345.6, 999999.0, -2e-5, np.inf)]
    assert found == ["0", "0.333", "1,000", "12,300", "1.00e+06", "-2.00e-05", "∞"]


def test_what_is_accepted_is_folded_with_its_reason():
    known = [
        Accepted("dead units", "a new start is coming", "2999-01-01"),
        Accepted("Is it?", "slow <disk>", "2999-01-02"),
    ]
    page = html(reported(), known)
    first = page[page.index("What is wrong") : page.index("What to do")]
    assert "<p>Nothing but what is accepted.</p><details><summary>2 accepted</summary>" in first
    assert "Accepted: a new start is coming (until 2999-01-01)." in first
    assert "slow &lt;disk&gt; (until 2999-01-02)" in first
    assert "<details><summary>1 accepted: dead units</summary>" in page[page.index("<section id='s1'>") :]
    # the control: without it nothing is folded
    assert "accepted" not in html(reported()).lower()


def _luminance(colour: str) -> float:
    parts = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    return float(np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4) @ [0.2126, 0.7152, 0.0722])


def test_text_stands_out_from_what_is_behind_it_in_both_schemes():
    # the ratio that WCAG 2 asks of small text; axe checks all but single letters
    for scheme in re.findall(r":root \{(.*?)\}", STYLE, re.DOTALL):
        tones = {name: _luminance(value) for name, value in re.findall(r"--(\w+): (#\w{6})", scheme)}
        words = [(a, b) for a in ("ink", "soft", "fine", "look", "problem", "none", "link") for b in ("page", "card")]
        for front, behind in [*words, *(("on", mark) for mark in ("fine", "look", "problem", "none"))]:
            high, low = sorted((tones[front], tones[behind]), reverse=True)
            assert (high + 0.05) / (low + 0.05) >= 4.5, (front, behind)


def test_the_page_is_built_for_those_who_hear_it(report):
    page = html(report)
    assert page.startswith("<!doctype html><html lang='en'>")
    assert "<title>" in page
    assert (page.count("<main>"), page.count("<h1>")) == (1, 1)
    levels = [int(level) for level in re.findall(r"<h(\d)>", page)]
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels))  # no level is left out
    assert all("alt='" in image for image in re.findall(r"<img [^>]*>", page))
    names = re.findall(r" id='([^']+)'", page)
    assert len(names) == len(set(names))
    assert set(re.findall(r'href="#([^"]+)"', page)) <= set(names)
    # a sign is never all that says what a mark is
    assert all(re.search(r"</i>\w", mark) for mark in re.findall(r"<span class='mark.*?</span>", page))
