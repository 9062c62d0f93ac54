"""The command line as a user types it."""

import json
import os
import shlex
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

import corollary
from corollary import ROOMS

COMMAND = [sys.executable, "-m", "corollary"]
QUICK = "linear.scoring.printed_scaling"
HERE = Path(__file__).parent


@pytest.fixture
def environment(tmp_path):
    return os.environ | {
        "COROLLARY_STORE": str(tmp_path / "evidence.db"),
        "COROLLARY_CLAIMS": "fixture_claims",
        "PYTHONPATH": f"{HERE / 'evidence'}{os.pathsep}{Path(corollary.__file__).parent.parent}",
        "FIXTURE_TRACE": str(tmp_path / "trace"),
    }


@pytest.fixture
def call(environment):
    def call(*words, **options):
        return subprocess.run(
            [*COMMAND, *words], env=environment, capture_output=True, text=True, timeout=240, check=False, **options
        )

    return call


HEAVY = ("altair", "equinox", "jax", "scipy", "sklearn")


def loaded(code: str) -> set[str]:
    """Which modules a program of its own has loaded in the end."""
    code += "\nimport sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split(" "))


def test_help_answers_without_jax(call):
    found = call("--help")
    assert found.returncode == 0
    assert "verify" in found.stdout
    modules = loaded("from typer.testing import CliRunner\nfrom corollary.cli import app\n"
                     "assert CliRunner().invoke(app, ['--help']).exit_code == 0")  # fmt: skip
    assert "corollary.cli" in modules
    assert not modules & set(HEAVY)


def test_importing_corollary_is_light():
    modules = loaded("import corollary")
    assert "corollary" in modules
    assert not modules & {*HEAVY, "numpy", *(f"corollary.{room}" for room in ROOMS)}


def test_version(call):
    from corollary import __version__

    assert call("--version").stdout.strip() == f"corollary {__version__}"


def test_list_and_its_json(call):
    found = call("list", "linear.*")
    assert QUICK in found.stdout
    lines = [json.loads(line) for line in call("list", "linear.*", "--json").stdout.splitlines()]
    assert {"claim", "title", "rows", "expected", "erratum"} <= set(lines[0])
    assert any(line["expected"] == "refuted" for line in lines)


def test_a_word_finds_ids_and_titles(call):
    found = call("list", "nesterov").stdout.splitlines()
    assert len(found) > 3
    assert all("nesterov" in line.lower() for line in found[:-1])
    assert "No claim matches" in call("list", "nesterow").stderr


def test_at_100_columns_a_claim_is_one_or_two_lines():
    from corollary._console import claim_lines
    from corollary.evidence import claims

    for c in claims().values():
        lines = claim_lines(c, 100)
        assert len(lines) <= 2, c.id
        assert max(map(len, lines)) <= 100, c.id
        assert lines[0].startswith(c.id)
    assert len(claim_lines(c, None)) == 1


@pytest.mark.parametrize("words", [["list"], ["show", QUICK], ["coverage"], ["coverage", "--missing"]])
def test_what_can_be_read_is_answered_without_jax(words, environment):
    code = f"""
import sys
sys.argv = ["corollary", *{words!r}]
try:
    import corollary.cli as c
    c.app()
except SystemExit:
    pass
print('jax' in sys.modules)
"""
    environment.pop("COROLLARY_CLAIMS")
    found = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True, timeout=120
    )
    assert found.stdout.strip().endswith("False")


def test_claims_in_a_file(call, tmp_path):
    (tmp_path / "my_file.py").write_text((HERE / "evidence" / "fixture_claims.py").read_text())
    path = str(tmp_path / "my_file.py")
    assert "my_file.true" in call("list", "--claims", path).stdout
    assert "One is at most two." in call("show", "my_file.true", "--claims", path).stdout
    found = call("verify", "my_file.true", "--claims", path, "--json")
    assert json.loads(found.stdout)["verdict"] == "holds", found.stderr
    assert "There is no file" in call("list", "--claims", str(tmp_path / "none.py")).stderr


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("def broken(:", "SyntaxError"),
        ("raise RuntimeError('\\x1b[31mred')", "RuntimeError: \\x1b[31mred."),
        ("print('said')\nraise SystemExit(0)", "SystemExit: 0."),
    ],
)
def test_claims_that_cannot_be_imported_are_a_sentence(call, tmp_path, text, sentence):
    (tmp_path / "mine.py").write_text(text)
    found = call("list", "--claims", str(tmp_path / "mine.py"), "--json")
    assert (found.returncode, found.stdout) == (2, "")
    assert "which cannot be imported: " in found.stderr
    assert sentence in found.stderr
    assert "Traceback" not in found.stderr


def test_a_claim_whose_module_cannot_be_imported_is_one_error(call, environment, tmp_path):
    (tmp_path / "altair.py").write_text("raise ImportError('half installed')")
    environment["PYTHONPATH"] = f"{tmp_path}{os.pathsep}{environment['PYTHONPATH']}"
    found = call("verify", "linear.regression_step_size.eigenvalues", "--json")
    assert found.returncode == 1
    assert "half installed" in json.loads(found.stdout)["error"]
    assert "Traceback" not in found.stderr


def test_a_row_that_no_text_has(call, tmp_path):
    text = (HERE / "evidence" / "fixture_claims.py").read_text().replace("M02.01", "M99.01")
    (tmp_path / "mine.py").write_text(text)
    found = call("show", "mine.true", "--claims", str(tmp_path / "mine.py"))
    assert found.returncode == 0, found.stderr
    assert "M99.01  is no row of the texts" in found.stdout


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is always full")
def test_results_on_a_full_disk_are_a_sentence(environment):
    with open("/dev/full", "w") as full:
        found = subprocess.run(
            [*COMMAND, "list", "nesterov"], env=environment, stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert (found.returncode, found.stderr) == (1, "corollary: No space left on device.\n")


def test_settings_that_contradict_each_other_are_refused(call):
    found = call("verify", "linear.regression_step_size.eigenvalues", "--set", "sets=7", "--set", "sets=8")
    assert found.returncode == 2
    assert "--set gives sets two values, 7 and 8." in found.stderr


def test_show(call):
    found = call("show", "linear.regression_step_size.sharp_threshold")
    for word in ("M02.08", "steps = 100", "Gradient descent", "full 1000"):
        assert word in found.stdout
    assert "Wrong as printed" in call("show", QUICK).stdout
    assert json.loads(call("show", QUICK, "--json").stdout)["claim"] == QUICK


def test_verify_json_is_one_object_a_line(call):
    found = call("verify", QUICK, "linear.regression_step_size.eigenvalues", "--json", "--seeds", "2", "--seed", "3")
    assert found.returncode == 0, found.stderr
    lines = [json.loads(line) for line in found.stdout.splitlines()]
    assert {(x["claim"], x["seed"]) for x in lines} == {
        (c, s) for c in (QUICK, "linear.regression_step_size.eigenvalues") for s in (3, 4)
    }
    for line in lines:
        assert {"claim", "seed", "verdict", "expected", "seconds", "checks"} <= set(line)
        assert line["verdict"] == line["expected"]
        for check in line["checks"]:
            assert {"name", "kind", "passed", "margin", "control"} <= set(check)


def test_verify_writes_figures_and_resumes(call, tmp_path):
    found = call("verify", "linear.regression_step_size.eigenvalues", "--figures", str(tmp_path / "f"))
    assert found.returncode == 0, found.stderr
    assert {p.suffix for p in (tmp_path / "f").iterdir()} == {".png", ".svg"}
    assert all(p.stat().st_size > 5000 for p in (tmp_path / "f").iterdir())
    again = call("verify", "linear.regression_step_size.eigenvalues")
    assert "1 from the store" in again.stdout
    assert "from the store" not in call("verify", "linear.regression_step_size.eigenvalues", "--fresh").stdout


def test_parameters_are_set_and_held_to_their_range(call):
    found = call("verify", "linear.regression_step_size.eigenvalues", "--set", "sets=7", "--json")
    assert found.returncode == 0, found.stderr
    out = call("verify", "linear.regression_step_size.eigenvalues", "--set", "sets=0")
    assert out.returncode == 2
    assert "sets takes a whole number in [1, 1e+06], got 0" in out.stderr
    assert "Traceback" not in out.stderr
    near = call("verify", "linear.regression_step_size.eigenvalues", "--set", "set=3")
    assert "Did you mean sets?" in near.stderr
    assert "name=value" in call("verify", QUICK, "--set", "sets").stderr
    assert "no scale huge" in call("verify", QUICK, "--scale", "huge").stderr


def test_a_mistyped_id_gets_the_nearest(call):
    found = call("verify", "linear.regression_step_size.eigenvalue")
    assert found.returncode == 2
    assert "linear.regression_step_size.eigenvalues" in found.stderr
    assert "linear.regression_step_size.eigenvalues" in call("show", "eigenvalues").stderr


def test_what_is_off_is_exit_status_1(call):
    found = call("verify", "fixture_claims.false", "--json")
    assert found.returncode == 1
    assert json.loads(found.stdout)["verdict"] == "fails"


def test_a_store_that_is_no_database(call, tmp_path, environment):
    path = tmp_path / "evidence.db"
    path.write_text("not a database, but somebody's words " * 30)
    before = path.read_bytes()
    found = call("verify", QUICK)
    assert found.returncode == 2
    assert "is not an SQLite database" in found.stderr
    assert "Traceback" not in found.stderr
    assert path.read_bytes() == before


def test_the_store_is_checked_and_exported(call, tmp_path):
    path = tmp_path / "evidence.db"
    assert call("store", "check").returncode == 2
    assert call("verify", QUICK).returncode == 0
    assert call("store", "check").stdout == f"1 row of {path} is sound.\n"
    (line,) = call("store", "export").stdout.splitlines()
    assert json.loads(line)["claim"] == QUICK
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE evidence SET verdict = 'fails'")
    found = call("store", "check")
    assert (found.returncode, found.stdout) == (1, f"0 rows of {path} are sound.\n")
    assert f"{QUICK}, seed 0. It is measured again." in found.stderr


def test_a_run_has_bounds(call):
    found = call("verify", QUICK, "--seeds", "1000000000000")
    assert found.returncode == 2
    assert "100000" in found.stderr
    assert "Traceback" not in found.stderr


def test_figures_into_a_file_is_a_sentence(call, tmp_path):
    (tmp_path / "file").touch()
    found = call("verify", QUICK, "--figures", str(tmp_path / "file"))
    assert found.returncode == 2
    assert "cannot be made" in found.stderr


def test_ctrl_c_ends_a_claim_that_never_would_and_says_what_is_kept(environment, tmp_path):
    words = [*COMMAND, "verify", QUICK, "fixture_claims.sleeps"]
    process = subprocess.Popen(
        words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        assert QUICK in process.stdout.readline()  # the first verdict is in
        name, worker, _ = wait_for(tmp_path / "trace").split(" ")
        assert name == "sleeps"  # the second claim has begun, and it has no end
        os.killpg(process.pid, signal.SIGINT)
        _, said = process.communicate()
    finally:
        process.kill()
    assert process.returncode == 130
    assert not Path(f"/proc/{worker}").exists()  # it was ended, and waited for, before the command was done
    assert "1 of 2 results are kept" in said
    assert "Traceback" not in said


def wait_for(path: Path) -> str:
    """The first line of a file that another process is going to write."""
    while not path.exists() or "\n" not in (text := path.read_text()):
        time.sleep(0.02)
    return text.splitlines()[0]


def test_coverage(call):
    table = call("coverage").stdout
    assert "1736" in table
    assert "Lucchi, Foundations of Deep Learning" in table
    assert "Linear Regression" in table
    rows = json.loads(call("coverage", "--json").stdout)
    assert len(rows) == 1736
    assert {"row", "kind", "covered_by", "waived"} == set(rows[0])
    covered = {r["row"] for r in rows if r["covered_by"]}
    chapter = {r["row"] for r in rows if r["row"].startswith(("M02.", "M03."))}
    assert len(chapter) == 50
    assert chapter <= covered
    missing = json.loads(call("coverage", "--missing", "--json").stdout)
    assert not chapter & {r["row"] for r in missing}


def test_output_into_a_closed_pipe(environment):
    found = subprocess.run(
        f"{shlex.join(COMMAND)} list | head -1", shell=True, env=environment, capture_output=True, text=True, check=True
    )
    assert "Traceback" not in found.stderr
