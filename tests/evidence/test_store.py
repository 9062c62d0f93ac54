import hashlib
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections import Counter
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corollary.evidence import Check, Evidence, Figure, StoreError, to_json
from corollary.evidence._store import Store, default_path
from corollary.evidence._store_file import APPLICATION, LAYOUT

#: bits that are flipped, and, a fifth of that, places where the file is cut off
FLIPS = int(os.environ.get("COROLLARY_FLIPS", "100"))

CHECK = Check("c", "at_most", "passed", 0.5, "Fine.", 0.5, {"x": [1.0, 2.0]}, {"y": "log"})
EVIDENCE = Evidence(
    "a.b",
    "Title",
    ("M02.01",),
    "holds",
    "holds",
    0,
    "quick",
    {"n": 3, "x": 0.5},
    "abc",
    (CHECK,),
    (Figure("f", {}),),
    versions={"jax": "0.11.0"},
    device="cpu",
    calls=("a:b",),
)


def key(evidence):
    return evidence.claim, evidence.parameters, evidence.seed, evidence.code, evidence.jax, evidence.device


def footprint(directory):
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in directory.iterdir() if p.is_file()}


@pytest.fixture
def full(tmp_path):
    """A file with a few hundred pieces of evidence, closed."""
    path = tmp_path / "evidence.db"
    with Store(path) as store:
        for seed in range(300):
            store.put(replace(EVIDENCE, seed=seed))
    return path


def refused(path, *words):
    """Opening the file is an error with these words, and changes nothing in its directory."""
    before = footprint(path.parent)
    with pytest.raises(StoreError) as caught:
        Store(path)
    assert footprint(path.parent) == before
    for word in (str(path), *words):
        assert word in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_is_put_is_there_for_the_next_to_open(tmp_path):
    path = tmp_path / "new" / "directories" / "evidence.db"
    with Store(path) as store:
        assert store.get(*key(EVIDENCE)) is None
        assert len(store) == 0
        store.put(EVIDENCE)
    with Store(path) as store:
        assert store.get(*key(EVIDENCE)) == EVIDENCE
        assert list(store) == store.all() == [EVIDENCE]
    assert sorted(p.name for p in path.parent.iterdir()) == ["evidence.db"]


def test_every_part_of_the_key_counts_and_nothing_is_there_twice(tmp_path):
    others = [
        replace(EVIDENCE, claim="a.c"),
        replace(EVIDENCE, seed=1),
        replace(EVIDENCE, code="abd"),
        replace(EVIDENCE, versions={"jax": "0.10.0"}),
        replace(EVIDENCE, device="gpu"),
        replace(EVIDENCE, parameters={"n": 3, "x": 0.25}),
    ]
    with Store(tmp_path / "e.db") as store:
        for evidence in [EVIDENCE, *others, EVIDENCE, *others]:
            store.put(evidence)
        assert len(store) == 7
        for evidence in [EVIDENCE, *others]:
            assert store.get(*key(evidence)) == evidence
        store.put(replace(EVIDENCE, verdict="error", error="No.", parameters={"x": 0.5, "n": 3}))  # same, reordered
        assert len(store) == 7
        assert store.get(*key(EVIDENCE)).verdict == "error"


VALUES = st.booleans() | st.integers() | st.floats(-1e300, 1e300) | st.text()


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    with Store(tmp_path_factory.mktemp("store") / "e.db") as store:
        yield store


@settings(deadline=None)  # it waits for the disk, which others may keep busy
@given(values=st.dictionaries(st.text(max_size=5), VALUES))
def test_parameters_find_themselves(values, shared):
    evidence = replace(EVIDENCE, parameters=values)
    shared.put(evidence)
    assert shared.get(*key(evidence)) == evidence


def test_settings(tmp_path):
    with Store(tmp_path / "e.db") as store:
        for pragma, value in {"journal_mode": "wal", "synchronous": 1, "busy_timeout": 30_000}.items():
            assert store._db.execute(f"PRAGMA {pragma}").fetchone() == (value,)


def test_an_empty_file_is_refused(tmp_path):
    path = tmp_path / "e.db"
    path.touch()
    refused(path, "is empty")


def test_a_link_is_followed(full, tmp_path):
    link = tmp_path / "link.db"
    link.symlink_to(full)
    with Store(link) as store:
        store.put(EVIDENCE)
        with Store(link) as other:
            assert len(other) == 300


@pytest.mark.parametrize("content", [b"Dear diary", b"SQLite format 4\0" + bytes(5000), b"\0" * 8192, b"SQ"])
def test_a_file_that_is_not_a_database(tmp_path, content):
    path = tmp_path / "e.db"
    path.write_bytes(content)
    refused(path, "COROLLARY_STORE")


@pytest.mark.parametrize("keep", [50, 100, 4096, -4096, -1])
def test_a_truncated_file(full, keep):
    full.write_bytes(full.read_bytes()[:keep])
    refused(full, "cut short")


def test_a_truncated_file_of_a_run_that_was_killed(full, tmp_path):
    # The log lies beside it, so that its length alone says nothing.
    crashed = tmp_path / "crashed"
    crashed.mkdir()
    with Store(full) as store:
        store.put(replace(EVIDENCE, seed=1000))
        for file in full.parent.glob("evidence.db*"):
            (crashed / file.name).write_bytes(file.read_bytes())
    (crashed / "evidence.db-shm").unlink()
    path, log = crashed / "evidence.db", crashed / "evidence.db-wal"
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    before = path.read_bytes(), log.read_bytes()
    with pytest.raises(StoreError, match="damaged"):
        Store(path)
    assert (path.read_bytes(), log.read_bytes()) == before
    path.write_bytes(whole)  # and with the file whole, the log brings back the last row
    with Store(path) as store:
        assert len(store) == 301


def test_a_page_that_was_overwritten(full):
    content = bytearray(full.read_bytes())
    content[4096:8192] = os.urandom(4096)
    full.write_bytes(content)
    refused(full, "damaged")


@pytest.mark.parametrize("journal", ["delete", "wal"])
def test_a_database_of_another_program(tmp_path, journal):
    path = tmp_path / "e.db"
    with closing(sqlite3.connect(path)) as db:
        db.execute(f"PRAGMA journal_mode = {journal}")
        db.execute("CREATE TABLE evidence (claim, json)")
    refused(path, "another program")


def test_a_newer_schema(full):
    with closing(sqlite3.connect(full)) as db:
        db.execute("PRAGMA user_version = 99")
    refused(full, "newer version", "99")


def test_a_store_of_the_first_schema_is_kept(tmp_path):
    path = tmp_path / "e.db"
    old = replace(EVIDENCE, device="", calls=None)
    raw = {k: v for k, v in json.loads(to_json(old)).items() if k not in ("device", "calls")} | {"schema": 1}
    with closing(sqlite3.connect(path)) as db:
        db.execute(
            "CREATE TABLE evidence (claim TEXT NOT NULL, parameters TEXT NOT NULL, seed INTEGER NOT NULL, code TEXT NOT"
            " NULL, verdict TEXT NOT NULL, started TEXT NOT NULL, json TEXT NOT NULL,"
            " PRIMARY KEY (claim, parameters, seed, code))"
        )
        for seed in range(3):
            row = ("a.b", '{"n":3,"x":0.5}', seed, "abc", "holds", "", json.dumps(raw | {"seed": seed}))
            db.execute("INSERT INTO evidence VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        db.execute(f"PRAGMA application_id = {APPLICATION}")
        db.execute("PRAGMA user_version = 1")
        db.commit()
    for _ in range(2):  # the second time there is nothing left to do
        with Store(path) as store:
            assert store.all() == [replace(old, seed=seed) for seed in range(3)]
            assert store.get(*key(EVIDENCE)) is None  # nobody knows where it was measured
            assert store.get(*key(old)) == old
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (LAYOUT,)
        assert db.execute("SELECT DISTINCT jax, device FROM evidence").fetchall() == [("0.11.0", "")]


@pytest.mark.parametrize(
    "edit",
    [
        "SET json = '{}' WHERE seed = 7",
        "SET json = replace(json, '\"holds\"', '\"holdz\"') WHERE seed = 7",
        "SET json = CAST(json AS BLOB) WHERE seed = 7",
        "SET verdict = 'fails' WHERE seed = 7",
        "SET seed = 1007 WHERE seed = 7",
        "SET digest = 'd' WHERE seed = 7",
    ],
)
def test_a_row_that_was_changed_is_set_aside_and_named(full, edit):
    with closing(sqlite3.connect(full, isolation_level=None)) as db:
        db.execute(f"UPDATE evidence {edit}")
    with Store(full) as store:
        assert len(store.all()) == 299
        assert store.get(*key(replace(EVIDENCE, seed=7))) is None
        (word,) = store.words
        assert f"A damaged row was set aside in {full}: a.b, seed {1007 if 'seed =' in edit[:10] else 7}." in word
        store.put(replace(EVIDENCE, seed=7))
    with Store(full) as store:
        assert store.all() == [replace(EVIDENCE, seed=seed) for seed in range(300)]
        assert store.words == []


def test_an_index_that_does_not_fit_is_made_anew(full):
    content = bytearray(full.read_bytes())
    with closing(sqlite3.connect(full)) as db:
        (root,) = db.execute("SELECT rootpage FROM sqlite_master WHERE type = 'index'").fetchone()
        (size,) = db.execute("PRAGMA page_size").fetchone()
    key_bytes = b'{"n":3,"x":0.5}'
    at = content.rindex(key_bytes, (root - 1) * size, root * size)
    content[at + 5] ^= 1
    full.write_bytes(content)
    with Store(full) as store:
        assert store.words == [f"The index of {full} was damaged, and was made anew."]
        for seed in range(300):
            assert store.get(*key(replace(EVIDENCE, seed=seed))) is not None
    with Store(full) as store:
        assert store.words == []


@pytest.mark.parametrize("replaced", [False, True])
def test_a_file_that_goes_away_is_noticed(full, tmp_path, replaced):
    with Store(full) as store:
        store.still_there()
        full.unlink()
        if replaced:
            Store(full).close()
        with pytest.raises(StoreError, match="deleted or replaced while it was in use"):
            store.still_there()


def damaged_in(full, contents):
    """How stores with these contents end: refused, repaired with a word, or without effect, never with other rows."""
    expected = {seed: replace(EVIDENCE, seed=seed) for seed in range(300)}
    counts = Counter()
    for content in contents:
        for leftover in full.parent.iterdir():
            leftover.unlink()
        full.write_bytes(content)
        try:
            with Store(full) as store:
                found = store.all()
                assert all(e == expected[e.seed] for e in found)
                assert len(found) == len({e.seed for e in found})
                assert len(found) == 300 or store.words
                counts["word" if store.words else "no effect"] += 1
        except StoreError:
            counts["refused"] += 1
    print(dict(counts))
    return counts


def test_single_bits_never_change_what_is_read(full):
    sound = full.read_bytes()

    def flipped(bit):
        content = bytearray(sound)
        content[bit // 8] ^= 1 << (bit % 8)
        return content

    bits = np.random.default_rng(0).choice(8 * len(sound), FLIPS, replace=False)
    assert damaged_in(full, map(flipped, bits))["word"] > FLIPS / 10  # most of the file is rows


def test_a_file_cut_off_anywhere_is_refused(full):
    sound = full.read_bytes()
    lengths = np.random.default_rng(1).choice(len(sound), FLIPS // 5, replace=False)
    assert damaged_in(full, (sound[:n] for n in lengths)) == {"refused": FLIPS // 5}


def test_places_where_nothing_can_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file" / "e.db", tmp_path, Path("/proc/corollary/e.db"), Path("/proc/e.db")):
        if path.parts[:2] == ("/", "proc") and not Path("/proc/self").exists():
            continue
        with pytest.raises(StoreError) as caught:
            Store(path)
        assert str(path) in str(caught.value)
        assert "\n" not in str(caught.value)


UNPRIVILEGED = """
import os, sys
from corollary.evidence._store import Store, StoreError
if os.geteuid() == 0:  # permissions do not bind root
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
try:
    Store(sys.argv[1])
except StoreError as error:
    print(error)
"""


@pytest.mark.parametrize("existing", [True, False])
def test_a_read_only_directory(full, existing):
    with tempfile.TemporaryDirectory() as name:  # not tmp_path, which other users cannot reach
        place, path = Path(name), Path(name) / "e.db"
        if existing:
            path.write_bytes(full.read_bytes())
            path.chmod(0o444)
        place.chmod(0o555)
        before = footprint(place)
        done = subprocess.run([sys.executable, "-c", UNPRIVILEGED, path], capture_output=True, text=True, timeout=120)
        assert (done.returncode, done.stderr) == (0, "")
        assert str(path) in done.stdout
        assert "cannot be written" in done.stdout
        assert done.stdout.count("\n") == 1
        assert footprint(place) == before
        place.chmod(0o755)


def fill(store):
    """Put evidence of seeds 0, 1, ... until the disk is full, and say so; how many were kept."""
    kept = 0

    def on():
        nonlocal kept
        for kept in range(10_000):
            store.put(replace(EVIDENCE, seed=kept))

    with pytest.raises(StoreError, match="disk is full") as caught:
        on()
    assert str(store.path) in str(caught.value)
    return kept


def test_a_full_disk(tmp_path):
    # SQLite's own limit on the size of the file fails in the same way as the disk does.
    with Store(tmp_path / "e.db") as store:
        store._db.execute("PRAGMA max_page_count = 20")
        kept = fill(store)
    with Store(tmp_path / "e.db") as store:
        assert kept > 1
        assert store.all() == [replace(EVIDENCE, seed=s) for s in range(kept)]


def test_a_disk_that_is_really_full(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "none", str(disk)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting a small file system is not allowed here")
    try:
        with Store(disk / "e.db") as store:
            kept = fill(store)
        with Store(disk / "e.db") as store:
            assert kept > 1
            assert store.all() == [replace(EVIDENCE, seed=s) for s in range(kept)]
        rest = os.statvfs(disk)
        (disk / "ballast").write_bytes(bytes(rest.f_bavail * rest.f_frsize))
        with pytest.raises(StoreError, match="disk is full"):
            Store(disk / "new.db")
        assert not list(disk.glob("new.db*"))
    finally:
        subprocess.run(["umount", disk], check=True)


def test_many_processes_create_and_fill_one_store(tmp_path):
    code = (
        "import sys\nfrom dataclasses import replace\nfrom test_store import EVIDENCE\n"
        "from corollary.evidence._store import Store\n"
        "with Store(sys.argv[1]) as s:\n"
        "    for seed in range(int(sys.argv[2]), 200, 2):\n        s.put(replace(EVIDENCE, seed=seed))\n"
        "        s.put(replace(EVIDENCE, seed=1000))\n"
    )
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parent)}
    path = tmp_path / "e.db"
    runs = [subprocess.Popen([sys.executable, "-c", code, path, str(i % 2)], env=environment) for i in range(4)]
    assert [r.wait(timeout=120) for r in runs] == [0] * 4
    with Store(path) as store:
        assert sorted(e.seed for e in store) == [*range(200), 1000]
    assert [p.name for p in tmp_path.iterdir()] == ["e.db"]


def test_where_evidence_goes(monkeypatch, tmp_path):
    monkeypatch.setenv("COROLLARY_STORE", str(tmp_path / "mine.db"))
    assert default_path() == tmp_path / "mine.db"
    monkeypatch.delenv("COROLLARY_STORE")
    assert default_path().name == "evidence.db"
    assert "corollary" in default_path().parts


def test_the_header_names_the_program(full):
    assert full.read_bytes()[68:72] == APPLICATION.to_bytes(4)
