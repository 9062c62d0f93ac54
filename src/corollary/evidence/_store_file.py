"""The file of a store: made whole or not at all, and looked at before it is touched."""

import hashlib
import os
import re
import sqlite3
import uuid
from contextlib import closing
from pathlib import Path

from corollary.evidence._errors import StoreError

APPLICATION = int.from_bytes(b"crly")  # stands in the file's header, so that no other program's data is touched
LAYOUT = 3
BUSY_SECONDS = 30.0
ELSEWHERE = "Move it away, or name another file with COROLLARY_STORE."

COLUMNS = ("claim", "parameters", "seed", "code", "jax", "device", "verdict", "started", "json")
_TABLE = """
CREATE TABLE evidence (
    claim TEXT NOT NULL, parameters TEXT NOT NULL, seed INTEGER NOT NULL, code TEXT NOT NULL,
    jax TEXT NOT NULL, device TEXT NOT NULL, verdict TEXT NOT NULL, started TEXT NOT NULL, json TEXT NOT NULL,
    digest TEXT NOT NULL,
    PRIMARY KEY (claim, parameters, seed, code, jax, device)
)
"""
#: Rows whose digest does not fit are kept here, for whoever wants to look, and are no evidence any more.
_ASIDE = "CREATE TABLE aside (content TEXT NOT NULL)"
#: The first layout had neither JAX nor the device as columns, the second no digests. What they hold is kept.
_JAX_AND_DEVICE = {
    1: ("coalesce(json_extract(json, '$.versions.jax'), '')", "''"),  # its device is not known
    2: ("jax", "device"),
}
INDEX = "has a damaged index."
_OF_THE_INDEX = re.compile(r"missing from index|wrong # of entries in index|non-unique entry in index")


def digest(*row) -> str:
    """A checksum of a row: its columns, types included."""
    return hashlib.blake2b("\x1f".join(map(repr, row)).encode(), digest_size=16).hexdigest()


def create(path: Path) -> None:
    """A new file appears whole or not at all, whoever else creates it now and wherever we are killed."""
    draft = path.with_name(f"{path.name}.{uuid.uuid4().hex[:8]}.new")
    try:
        with closing(sqlite3.connect(draft, isolation_level=None)) as db:
            prepare(db)
        try:
            os.link(draft, path)  # unlike a rename, this does not replace what another run put there meanwhile
        except FileExistsError:
            pass
        except OSError:  # a file system without links
            if not path.exists():
                os.rename(draft, path)
    finally:
        for leftover in (draft, Path(f"{draft}-wal"), Path(f"{draft}-shm"), Path(f"{draft}-journal")):
            leftover.unlink(missing_ok=True)


def prepare(db: sqlite3.Connection) -> None:
    """Settings of the connection, and the table where there is none yet, or an older one."""
    db.execute(f"PRAGMA busy_timeout = {BUSY_SECONDS * 1000:.0f}")
    db.create_function("digest", len(COLUMNS), digest, deterministic=True)
    db.execute("BEGIN IMMEDIATE")
    if db.execute("PRAGMA application_id").fetchone() != (APPLICATION,):
        db.execute(_TABLE)
        db.execute(_ASIDE)
        db.execute(f"PRAGMA application_id = {APPLICATION}")
        db.execute(f"PRAGMA user_version = {LAYOUT}")
    elif (version := db.execute("PRAGMA user_version").fetchone()[0]) < LAYOUT:
        _migrate(db, version)
    db.execute("COMMIT")
    # after the commit, so that the header of the file itself, and not only its log, says whose it is
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = NORMAL")


def _migrate(db: sqlite3.Connection, version: int) -> None:
    jax, device = _JAX_AND_DEVICE[version]
    known = f"claim, parameters, seed, code, {jax} AS jax, {device} AS device, verdict, started, json"
    for statement in (
        "ALTER TABLE evidence RENAME TO older",
        _TABLE,
        _ASIDE,
        f"INSERT INTO evidence SELECT *, digest({', '.join(COLUMNS)}) FROM (SELECT {known} FROM older)",
        "DROP TABLE older",
        f"PRAGMA user_version = {LAYOUT}",
    ):
        db.execute(statement)


def inspect(path: Path) -> bool:
    """Raise for a file that is not sound evidence of ours, without changing a byte of it or beside it.

    True if all is well, False if the index does not fit the table: that can be made anew.
    """
    if not path.is_file():
        kind = "a directory" if path.is_dir() else "not a regular file"
        raise StoreError(f"The evidence file {path} is {kind}. Name a file with COROLLARY_STORE.")
    for _ in range(10):
        before = _stamp(path)
        problem = _problem(path)
        if problem in (None, INDEX):
            return problem is None
        if _stamp(path) == before:  # otherwise another run wrote while we read, and we saw half of each
            break
    raise StoreError(f"The evidence file {path} {problem} {ELSEWHERE}")


def _stamp(path: Path) -> tuple:
    stat = path.stat()
    return stat.st_mtime_ns, stat.st_size, _logged(path)


def _logged(path: Path) -> bool:
    """Whether a write-ahead log lies beside the file: a run is at work, or was killed, and its pages belong to us."""
    log = Path(f"{path}-wal")
    return log.exists() and log.stat().st_size > 0


def _problem(path: Path) -> str | None:
    logged = _logged(path)
    with path.open("rb") as file:
        header = file.read(100)
    if not header:
        return "is empty."
    if not header.startswith(b"SQLite format 3\0"[: len(header)]):
        return "is not an SQLite database."
    if len(header) < 100:
        return "is cut short."
    application, version = _word(header, 68), _word(header, 60)
    if application != APPLICATION:
        return "is a database of another program."
    if version > LAYOUT:
        return f"was written by a newer version of corollary (layout {version}, this one knows {LAYOUT})."
    if version not in (*_JAX_AND_DEVICE, LAYOUT) or _word(header, 56) != 1:
        return "is damaged (its header)."
    page = int.from_bytes(header[16:18])
    page = 65536 if page == 1 else page
    # the page count in the header is valid when it was written together with the change counter
    if not logged and _word(header, 24) == _word(header, 92) and path.stat().st_size < page * _word(header, 28):
        return f"is cut short: {path.stat().st_size:,} bytes instead of {page * _word(header, 28):,}."
    return _unsound(path, logged)


def _unsound(path: Path, logged: bool) -> str | None:
    """What SQLite's own check says, indexes included. `immutable` reads the file alone and leaves no lock or log."""
    uri = f"{path.absolute().as_uri()}?mode=ro" + ("" if logged else "&immutable=1")
    try:
        with closing(sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS)) as db:
            found = [text for (text,) in db.execute("PRAGMA integrity_check") if text != "ok"]
    except sqlite3.DatabaseError as error:
        if getattr(error, "sqlite_errorname", "") in ("SQLITE_BUSY", "SQLITE_CANTOPEN"):
            raise
        found = [str(error)]
    fatal = [text for text in found if not _OF_THE_INDEX.search(text)]
    return f"is damaged ({' '.join(fatal[0].split())})." if fatal else INDEX if found else None


def _word(header: bytes, offset: int) -> int:
    return int.from_bytes(header[offset : offset + 4])


def sentence(path: Path, error: sqlite3.Error) -> StoreError:
    name = getattr(error, "sqlite_errorname", None) or ""
    if name.startswith("SQLITE_FULL"):
        return StoreError(f"The evidence file {path} cannot grow: the disk is full. What was written is kept.")
    if name.startswith("SQLITE_BUSY"):
        return StoreError(f"The evidence file {path} was locked by another program for {BUSY_SECONDS:g} s.")
    if name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM")):
        return StoreError(f"The evidence file {path} cannot be written ({error}). {ELSEWHERE}")
    if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
        return StoreError(f"The evidence file {path} is damaged ({error}). {ELSEWHERE}")
    return StoreError(f"The evidence file {path} cannot be used: {error}.")
