"""What an audit leaves for machines: forms that their readers take, what is accepted, and when a run fails."""

import json
from datetime import date
from importlib.resources import files
from xml.etree import ElementTree

import jsonschema
import pytest
from reported import reported

from corollary import cli
from corollary._console import audit_progress
from corollary.audit import SubjectError, _limited
from corollary.audit._accepted import read_accepted
from corollary.audit._junit import junit
from corollary.audit._limited import Answer
from corollary.audit._markdown import markdown
from corollary.audit._marked import failing
from corollary.audit._outlets import gate
from corollary.audit._sarif import line_of, sarif

SCHEMA = json.loads(files("corollary.audit").joinpath("report.schema.json").read_text(encoding="utf-8"))
KNOWN = {"finding": "dead units", "reason": "the new start is coming", "until": "2999-01-01"}


@pytest.fixture(scope="module")
def fields():
    return json.loads(reported().json())


def valid(fields) -> None:
    check = jsonschema.Draft202012Validator
    check.check_schema(SCHEMA)
    check(SCHEMA).validate(fields)


def test_the_schema_holds_for_a_report_and_for_no_other(fields):
    valid(fields)
    valid(fields | {"accepted": [KNOWN]})
    assert fields["sections"][0]["findings"][0]["interval"] == [1.0, "Infinity"]
    for wrong in ({"schema": 2}, {"sections": [{}]}, {"accepted": [{"finding": "a"}]}, {"actions": None}):
        with pytest.raises(jsonschema.ValidationError):
            valid(fields | wrong)
    broken = json.loads(json.dumps(fields))
    broken["sections"][0]["findings"][0]["mark"] = "good"
    with pytest.raises(jsonschema.ValidationError):
        valid(broken)


def test_the_schema_describes_every_field(fields):
    parts = {
        "section": fields["sections"][0],
        "finding": fields["sections"][0]["findings"][0],
        "cause": fields["causes"][0],
        "action": fields["actions"][0],
        "trial": fields["trials"][0],
        "subject": fields["subject"],
    }
    assert fields.keys() <= SCHEMA["properties"].keys()
    for name, part in parts.items():
        assert part.keys() <= SCHEMA["$defs"][name]["properties"].keys(), name


def test_a_run_fails_on_what_was_asked_for(fields):
    problems = ["problem: All units* died (dead units; Did it?)", "problem: the section itself (Is it?)"]
    assert failing(fields, "problem") == problems
    assert failing(fields, "look") == ["look: noise | scale (Will it train?)", *problems]
    assert failing(fields | {"accepted": [KNOWN]}, "problem") == problems[1:]
    stopped = KNOWN | {"finding": "Is it?"}
    assert failing(fields | {"accepted": [KNOWN, stopped]}, "problem") == []
    assert failing(fields, "worse") == []


def test_junit_counts_and_says_what_failed(fields):
    root = ElementTree.fromstring(junit(fields, "problem"))
    assert {name: root.get(name) for name in ("tests", "failures", "errors", "skipped")} == dict(
        tests="5", failures="1", errors="1", skipped="1"
    )
    assert [suite.get("name") for suite in root] == ["Will it train?", "Did it?", "Is it?"]
    case = next(case for case in root.iter("testcase") if case.get("name") == "dead units")
    assert case.find("failure").get("message") == "All units* died. 12,300. They are dead\\x1b."
    strict = ElementTree.fromstring(junit(fields | {"accepted": [KNOWN]}, "look"))
    assert (strict.get("failures"), strict.get("errors"), strict.get("skipped")) == ("1", "1", "2")
    skipped = [
        case.find("skipped").get("message") for case in strict.iter("testcase") if case.get("name") == "dead units"
    ]
    assert skipped == ["accepted: the new start is coming (until 2999-01-01)"]


def test_markdown_shows_text_as_it_is(fields):
    text = markdown(fields | {"accepted": [KNOWN]}, "problem")
    assert "**❌ failed (`--fail-on problem`): 1**" in text
    assert r"**noise \| scale** (2 examples): Look &amp; see." in text
    assert r"**All units\* died** (dead units, 12,300): " in text
    assert r"They are dead\\x1b. Accepted: the new start is coming (until 2999-01-01)." in text
    assert r"1. **divide the step by 2**: training loss 1 → 0.5 \[0.4, ∞\]" in text
    assert "✅ passed" in markdown(fields | {"sections": fields["sections"][:1]}, "problem")


def test_sarif_has_a_place_for_every_result(fields, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my nets.py").write_text("import os\n\n\n@cached\ndef make():\n    pass\n", encoding="utf-8")
    found = json.loads(sarif(fields | {"accepted": [KNOWN]}, "my nets.py:make"))
    run = found["runs"][0]
    assert found["version"] == "2.1.0"
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == [
        "corollary/noise-scale",
        "corollary/dead-units",
        "corollary/is-it",
    ]
    assert run["results"][1]["message"]["text"].startswith("All units* died (dead units, 12,300): They are")
    assert [r["level"] for r in run["results"]] == ["warning", "error", "error"]
    for i, result in enumerate(run["results"]):
        place = result["locations"][0]["physicalLocation"]
        assert place == {"artifactLocation": {"uri": "my%20nets.py"}, "region": {"startLine": 5}}
        assert result["ruleIndex"] == i
    assert [len(r.get("suppressions", ())) for r in run["results"]] == [0, 1, 0]
    assert line_of("my nets.py", "elsewhere") == line_of("none.py", "make") == 1


def test_what_can_be_accepted(tmp_path):
    path = tmp_path / "known.json"
    path.write_text(json.dumps([KNOWN | {"until": "2030-05-01"}]), encoding="utf-8")
    assert read_accepted(path, date(2030, 5, 1))[0].finding == "dead units"
    with pytest.raises(SubjectError, match="accepted until 2030-05-01, which is past: mend it, or give another date"):
        read_accepted(path, date(2030, 5, 2))


BAD = {
    "nothing here": "is not JSON",
    "[" * 100_000: "is not JSON",
    "{}": "must hold a list of",
    '[{"finding": "a"}]': "must hold a list of",
    json.dumps([KNOWN | {"reason": " "}]): "must hold a list of",
    json.dumps([KNOWN | {"until": "soon"}]): "must be YYYY-MM-DD, got 'soon'",
    json.dumps([KNOWN | {"until": "2020-01-01"}]): "was accepted until 2020-01-01, which is past",
    json.dumps([KNOWN, KNOWN]): "has 'dead units' twice",
}


@pytest.mark.parametrize("text", BAD, ids=BAD.values())
def test_a_file_that_accepts_nothing_sensible(tmp_path, text):
    (tmp_path / "known.json").write_text(text, encoding="utf-8")
    with pytest.raises(SubjectError, match=BAD[text]):
        gate("problem", tmp_path / "known.json")
    with pytest.raises(SubjectError, match="cannot be read: No such file"):
        gate("problem", tmp_path / "none.json")


@pytest.fixture
def called(tmp_path, monkeypatch, capsys):
    """`called(*words)`: exit status, output and errors of a command line whose audit was made by hand."""
    report = reported()
    monkeypatch.setattr(_limited, "limited", lambda asked, **_: Answer("<page>", report.json()))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text("def make():\n    pass\n", encoding="utf-8")

    def called(*words):
        with pytest.raises(SystemExit) as ended:
            cli.main(["audit", *words])
        return ended.value.code, *capsys.readouterr()

    return called


def test_the_command_writes_all_forms_and_ends_with_1(called, tmp_path):
    written = ["--json", "r.json", "--junit", "r.xml", "--markdown", "r.md", "--sarif", "r.sarif"]
    status, out, err = called("mine.py:make", "--fail-on", "problem", *written)
    assert (status, err.splitlines()[0]) == (1, "Failed by --fail-on problem:")
    assert err.splitlines()[1:] == failing(json.loads((tmp_path / "r.json").read_text()), "problem")
    assert "report in report.html" in out
    assert "problem         All units* died (dead units)" in out
    valid(json.loads((tmp_path / "r.json").read_text()))
    assert ElementTree.parse(tmp_path / "r.xml").getroot().tag == "testsuites"
    assert (tmp_path / "r.md").read_text(encoding="utf-8").startswith("## corollary audit of mine.onnx")
    assert json.loads((tmp_path / "r.sarif").read_text())["version"] == "2.1.0"
    assert called("mine.py:make")[0] == 0


def test_a_log_shows_that_it_goes_on(capsys):
    with audit_progress(3) as progress:
        for title in ("Reading the network", "Will it train?", "Is it [robust]?"):
            progress(title)
    # what cannot be read gets its sentence, and nothing before it
    assert capsys.readouterr().err.splitlines() == ["2 of 3: Will it train?", "3 of 3: Is it [robust]?"]


def test_what_is_accepted_fails_no_run(called, tmp_path):
    known = [KNOWN, KNOWN | {"finding": "Is it?"}]
    (tmp_path / "known.json").write_text(json.dumps(known), encoding="utf-8")
    status, out, _ = called("mine.py:make", "--fail-on", "problem", "--accept", "known.json")
    assert status == 0
    assert "Accepted until 2999-01-01: dead units. the new start is coming" in out
    assert called("mine.py:make", "--fail-on", "look", "--accept", "known.json")[0] == 1


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ["mine.py:make", "--accept", "odd.json"],
            "names 'dead unit', which is no finding of this audit; did you mean",
        ),
        (["mine.py:make", "--fail-on", "all"], "--fail-on must be one of problem, look, worse, got 'all'"),
        (["mine.py:make", "--fail-on", "worse"], "--fail-on worse needs something to be worse than: --against FILE."),
        (["--sarif", "r.sarif"], "--sarif needs a network that is file.py:function"),
        (["mine.py:make", "--junit", "no/r.xml"], "--junit no/r.xml cannot be written: No such file or directory"),
        (["mine.py:make", "--junit", "r", "--markdown", "./r"], "--junit and --markdown would both write r."),
    ],
)
def test_what_cannot_be_is_one_sentence_and_status_2(called, tmp_path, words, sentence):
    (tmp_path / "odd.json").write_text(json.dumps([KNOWN | {"finding": "dead unit"}]), encoding="utf-8")
    status, _, err = called(*words)
    assert status == 2
    assert sentence in err
    assert len(err.splitlines()) == 1


def test_json_is_printed_alone(called):
    status, out, _ = called("mine.py:make", "--json", "-")
    assert status == 0
    valid(json.loads(out))
