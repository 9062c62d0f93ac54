"""The whole audit of the default network, and the command line with what people get wrong."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

from corollary import cli
from corollary.audit import audit
from corollary.audit._budget import SECTIONS
from corollary.audit.digits import digits_subject
from corollary.evidence import claims

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def report():
    titles = []
    found = audit(digits_subject(), progress=titles.append)
    assert titles == [section.title for section in found.sections]
    return found


def test_a_healthy_network_has_no_problem(report):
    assert [s.failed for s in report.sections] == [None] * len(SECTIONS)
    assert not [f.name for f in report.findings if f.mark == "problem"]


def test_the_readme_shows_this_audit(report):
    """Word for word; the last digits of the numbers are another machine's."""

    def words(text):
        return re.sub(r"\d+(\.\d+)?", "#", " ".join(text.split()))

    shown = words((ROOT / "README.md").read_text(encoding="utf-8"))
    for section in report.sections:
        assert words(f"{section.mark} {section.title} {section.answer}") in shown


def test_every_finding_names_a_claim_that_exists_and_says_how_certain_it_is(report):
    known = claims()
    for f in report.findings:
        if f.value is not None:
            assert f.claim in known, (f.name, f.claim)
            assert f.theorem, f.name
            assert f.exact or f.interval[0] <= f.value <= f.interval[1], f.name


def test_the_report_is_small_and_whole(report, tmp_path):
    report.save(tmp_path / "report.html")
    assert 20_000 < (tmp_path / "report.html").stat().st_size < 6_000_000
    json.dumps(report.as_dict(), default=str)


def command(*arguments, cwd):
    environment = os.environ | {"JAX_PLATFORMS": "cpu"}
    run = [sys.executable, "-m", "corollary", "audit", *arguments]
    return subprocess.run(run, capture_output=True, text=True, cwd=cwd, env=environment, timeout=250)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nothing.onnx"], "nothing.onnx is not a file"),
        (["model.h5"], "a network is an .onnx file or file.py:function"),
        (["--train", "train.npz"], "describe an ONNX file: name the file first"),
        (["broken.onnx", "--train", "train.npz", "--loss", "squared", "--input", "a"], "--input takes name=value"),
        (["broken.onnx", "--train", "train.npz", "--loss", "squared", "--initial", "no.onnx"], "no.onnx is not a file"),
        (["mine.py:other", "--loss", "squared"], "a function makes its subject with them itself"),
        (["broken.onnx"], "needs its training data"),
        (["broken.onnx", "--train", "train.npz"], "needs its loss"),
        (["broken.onnx", "--train", "pickled.npz", "--loss", "squared"], "pickled"),
        (["broken.onnx", "--train", "train.npz", "--loss", "squared"], "broken.onnx"),
        (["mine.py:nothing"], "has no function 'nothing'"),
        (["mine.py:fails"], "fails failed: ZeroDivisionError"),
        (["mine.py:other"], "must return a corollary.Subject"),
        (["--budget", "huge"], "--budget must be one of quick, full"),
        (["--out", "no/such/place.html"], "no/such/place.html cannot be written: No such file or directory"),
        (["--out", "a" * 300], "cannot be written: File name too long"),
        (["--out", "."], "cannot be written: Is a directory"),
        (["--learning-rate", "0.1", "--test", "t.npz"], "--test and --learning-rate would describe an ONNX file"),
        (["mine.py:other", "--batch-size", "3"], "a function makes its subject with them itself"),
        (["mine.py:exits"], "mine.py:exits failed: SystemExit: 4."),
    ],
)
def test_bad_input_is_one_sentence_and_status_2(tmp_path, monkeypatch, capfd, arguments, sentence):
    np.savez(tmp_path / "train.npz", x=np.ones((4, 2), np.float32), y=np.ones((4, 1), np.float32))
    np.savez(tmp_path / "pickled.npz", x=np.array([{}], dtype=object), y=np.ones(1))
    (tmp_path / "broken.onnx").write_bytes(b"not a network")
    mine = "def fails():\n    1 / 0\n\n\ndef other():\n    return 3\n\n\ndef exits():\n    raise SystemExit(4)\n"
    (tmp_path / "mine.py").write_text(mine, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        cli.main(["audit", *arguments])
    said = capfd.readouterr().err
    assert ended.value.code == 2, said
    assert not (tmp_path / "report.html").exists()
    assert sentence in said
    assert "Traceback" not in said
    assert len(said.strip().splitlines()) == 1


def test_what_a_function_prints_is_not_among_the_results(tmp_path):
    (tmp_path / "mine.py").write_text("print('at import')\n\n\ndef f():\n    print('in it')\n", encoding="utf-8")
    done = command("mine.py:f", "--json", "-", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[:2] == ["at import", "in it"]


def test_ctrl_c_ends_an_audit_with_all_that_it_started(tmp_path):
    code = "import os, time\n\n\ndef f():\n    open('pid', 'w').write(f'{os.getpid()}\\n')\n    time.sleep(1000)\n"
    (tmp_path / "mine.py").write_text(code, encoding="utf-8")
    words = [sys.executable, "-m", "corollary", "audit", "mine.py:f"]
    process = subprocess.Popen(words, cwd=tmp_path, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        while not (tmp_path / "pid").exists() or "\n" not in (tmp_path / "pid").read_text():
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGINT)
        _, said = process.communicate()
    finally:
        process.kill()
    assert (process.returncode, said) == (130, "\nInterrupted. There is no report.\n")
    assert not psutil.pid_exists(int((tmp_path / "pid").read_text()))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.py", "pid"]
