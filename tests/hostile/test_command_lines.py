"""Fuzzed command lines: every one ends with 0, 1, 2 or 130, without a traceback and without steering the terminal.

`COROLLARY_LINES` says how many; 100 unless it is set. They run in this process, but for the few whose audit begins.
"""

import os
import unicodedata
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, event, given, settings
from hypothesis import strategies as st

from corollary import cli

HERE = Path(__file__).parent
LINES = int(os.environ.get("COROLLARY_LINES", "100"))
FUNCTIONS = """
import os, sys
print("at import")
def exits(): sys.exit(3)
def raises(): raise RuntimeError("a \\x1b[31m red \\u202e thing")
def dies(): os._exit(9)
def none(): print("in the function")
"""
CLAIMS = {
    "unparsed.py": "def broken(:\n",
    "raising.py": "raise RuntimeError('\\x1b]0;owned\\x07')\n",
    "exiting.py": "import sys\nprint('x')\nsys.exit(0)\n",
    "rows.py": "from corollary.evidence import at_most, claim\n\n\n@claim(rows=('X99.01', '\\x1b[2J'))\ndef odd(key):\n"
    "    '''A claim with \\x1b[31m in its title.\n\n    And more.'''\n    yield at_most('one', 1.0, bound=2.0)\n",
}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A directory with files of every kind that a command line may name."""
    folder = tmp_path_factory.mktemp("lines")
    (folder / "f.py").write_text(FUNCTIONS)
    for name, text in CLAIMS.items():
        (folder / name).write_text(text)
    (folder / "empty.onnx").touch()
    (folder / "noise.onnx").write_bytes(np.random.default_rng(0).bytes(300))
    (folder / "noise.npz").write_bytes(np.random.default_rng(1).bytes(300))
    (folder / "empty.db").touch()
    (folder / "words.db").write_text("no database " * 50)
    (folder / "folder").mkdir()
    np.savez(folder / "data.npz", x=np.ones((4, 2)), y=np.arange(4))
    before = os.getcwd()
    os.chdir(folder)
    yield folder
    os.chdir(before)


ODD = st.text(st.characters(exclude_categories=(), exclude_characters="\0*?["), max_size=12)
NUMBERS = st.sampled_from(
    ["0", "1", "-1", "1e400", "nan", "inf", "-inf", "3.5", "1000000000000", "9" * 400, "0x10", ""]
)
NAMES = "none folder folder/none/x /dev/full /dev/null f.py empty.onnx noise.onnx noise.npz data.npz empty.db words.db"
PATHS = st.sampled_from(
    [*NAMES.split(), "a" * 300, "a" * 5000, "\udcff.npz", "\x1b[2J.onnx", "~nobody/x", "report.html", ""]
)
VALUES = st.one_of(NUMBERS, PATHS, ODD)
IDS = st.one_of(st.sampled_from(["linear.none", "linear..", "linear.[", "linear.[z-a]x", "odd", "rows.odd"]), ODD)
OPTIONS = {
    "audit": "train test loss input output parameters initial learning-rate batch-size budget out time-limit "
    "memory-limit fail-on accept json junit markdown sarif against checkpoints",
    "list": "claims",
    "show": "claims",
    "verify": "seed seeds set scale jobs figures store time-limit memory-limit claims",
    "coverage": "",
    "ledger check": "dir",
    "ledger write": "dir jobs store time-limit",
    "store check": "",
    "store export": "",
}
NETWORKS = st.one_of(
    PATHS, st.sampled_from(["f.py:exits", "f.py:raises", "f.py:dies", "f.py:none", "f.py:", "f.py:\x1b", "folder.py:f"])
)
FILES = {"audit": NETWORKS, "store check": PATHS, "store export": PATHS}


@st.composite
def lines(draw):
    """A command with options of its own and of others, in any order, with values that mostly do not fit."""
    command = draw(st.sampled_from([*OPTIONS, "none", "\x1b[31m", ""]))
    known = [f"--{name}" for name in OPTIONS.get(command, "").split()]
    words = []
    # a network, or the id of no claim of ours: what a plain command does takes minutes or hours
    least = 1 if command in ("audit", "verify", "ledger write", "ledger check") else 0
    for _ in range(draw(st.integers(least, 2))):
        words.append(draw(FILES.get(command, IDS)))
    for _ in range(draw(st.integers(0, 3))):
        option = draw(st.sampled_from([*known, *known, "--json", "--json", "--fresh", "--missing", "--help", None]))
        words += [draw(ODD)] if option is None else [option, draw(VALUES)] if option in known else [option]
    return [*command.split(" "), *words]


def plain(text: str) -> bool:
    """Whether nothing in it steers a terminal."""
    return not any(unicodedata.category(c) in ("Cc", "Cf", "Cs") for c in text.replace("\n", "").replace("\r", ""))


@settings(
    max_examples=LINES,
    derandomize=True,
    database=None,
    phases=(Phase.generate,),
    suppress_health_check=list(HealthCheck),
)
@given(words=lines(), claims=st.sampled_from(["", "", "", "rows.py", *CLAIMS, "none_of_ours", "a b"]))
def test_every_line_ends_in_a_sentence(place, capfd, monkeypatch, words, claims):
    monkeypatch.setenv("COROLLARY_CLAIMS", claims)
    monkeypatch.setenv("COROLLARY_STORE", str(place / "evidence.db"))
    with pytest.raises(SystemExit) as ended:
        cli.main(words)
    event(f"{words[0]} ends with {ended.value.code}")  # for --hypothesis-show-statistics
    out, err = capfd.readouterr()
    assert ended.value.code in (0, 1, 2, 130), words
    assert "Traceback" not in out + err, words
    assert plain(out + err), words
    if ended.value.code == 2:
        assert err or "Usage" in out, words
