"""Evidence in an SQLite file: one row per claim, parameters, seed, version of the code and of JAX, and device."""

import json
import os
import sqlite3
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from corollary.evidence._errors import StoreError
from corollary.evidence._evidence import SCHEMA, Evidence, from_json, to_json

APPLICATION = int.from_bytes(b"crly")  # stands in the file's header, so that no other program's data is touched
BUSY_SECONDS = 30.0
ELSEWHERE = "Move it away, or name another file with COROLLARY_STORE."

_TABLE = """
CREATE TABLE evidence (
    claim TEXT NOT NULL, parameters TEXT NOT NULL, seed INTEGER NOT NULL, code TEXT NOT NULL,
    jax TEXT NOT NULL, device TEXT NOT NULL, verdict TEXT NOT NULL, started TEXT NOT NULL, json TEXT NOT NULL,
    PRIMARY KEY (claim, parameters, seed, code, jax, device)
)
"""
#: The first schema had neither JAX nor the device as columns. What it holds is kept; its device is not known.
_FROM_1 = (
    "ALTER TABLE evidence RENAME TO evidence_1",
    _TABLE,
    "INSERT INTO evidence SELECT claim, parameters, seed, code,"
    " coalesce(json_extract(json, '$.versions.jax'), ''), '', verdict, started, json FROM evidence_1",
    "DROP TABLE evidence_1",
)


class Store:
    """Evidence in a file that several runs may use at once, and that a killed run leaves whole.

    A file that is there already is looked at before it is touched. One that is damaged, or not ours, stays as it is.
    """

    def __init__(self, path: str | os.PathLike):
        try:
            self.path = Path(path).resolve()  # SQLite puts its log beside the file itself, not beside a link to it
            self.path.parent.mkdir(parents=True, exist_ok=True)
            if not self.path.exists():
                _create(self.path)
            _inspect(self.path)
            self._db = sqlite3.connect(self.path, timeout=BUSY_SECONDS, isolation_level=None)
        except sqlite3.Error as error:
            raise _sentence(self.path, error) from None
        except (OSError, RuntimeError) as error:  # the latter for links that lead nowhere
            reason = getattr(error, "strerror", None) or error
            raise StoreError(f"The evidence file {path} cannot be used: {reason}. {ELSEWHERE}") from None
        try:
            _prepare(self._db)  # takes the lock to write, so that a read-only place is noticed now
        except sqlite3.Error as error:
            self._db.close()
            raise _sentence(self.path, error) from None

    def get(self, claim: str, parameters: dict, seed: int, code: str, jax: str, device: str) -> Evidence | None:
        """The evidence under this key, if there is any."""
        key = (claim, _canonical(parameters), seed, code, jax, device)
        columns = ("claim", "parameters", "seed", "code", "jax", "device")
        query = f"SELECT json FROM evidence WHERE {' AND '.join(f'{c} = ?' for c in columns)}"
        return next(self._read(query, key), None)

    def put(self, evidence: Evidence) -> None:
        """Keep `evidence`; what was there under its key is replaced. On return it is on its way to the disk."""
        e = evidence
        key = (e.claim, _canonical(e.parameters), e.seed, e.code, e.jax, e.device)
        try:
            row = (*key, e.verdict, e.started, to_json(e))
            self._db.execute("INSERT OR REPLACE INTO evidence VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
        except sqlite3.Error as error:
            raise _sentence(self.path, error) from None

    def __iter__(self) -> Iterator[Evidence]:
        return self._read("SELECT json FROM evidence ORDER BY claim, parameters, seed, started")

    def all(self) -> list[Evidence]:
        """All evidence, that of earlier versions of the code too, ordered by claim, parameters and seed."""
        return list(self)

    def __len__(self) -> int:
        return self._db.execute("SELECT count(*) FROM evidence").fetchone()[0]

    def close(self) -> None:
        """Close the file. Everything that was put is kept, also without this."""
        self._db.close()

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def _read(self, query: str, values: tuple = ()) -> Iterator[Evidence]:
        try:
            for (text,) in self._db.execute(query, values):
                yield from_json(text)
        except sqlite3.Error as error:
            raise _sentence(self.path, error) from None
        except (ValueError, TypeError, KeyError) as error:
            raise StoreError(f"The evidence file {self.path} holds a row that cannot be read ({error}).") from None


def default_path() -> Path:
    """Where evidence goes: the file that `COROLLARY_STORE` names, or one in the user's data directory."""
    if named := os.environ.get("COROLLARY_STORE"):
        return Path(named).expanduser()
    from platformdirs import user_data_dir

    return Path(user_data_dir("corollary", appauthor=False)) / "evidence.db"


def _canonical(parameters: dict) -> str:
    return json.dumps(parameters, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _create(path: Path) -> None:
    """A new file appears whole or not at all, whoever else creates it now and wherever we are killed."""
    draft = path.with_name(f"{path.name}.{uuid.uuid4().hex[:8]}.new")
    try:
        with closing(sqlite3.connect(draft, isolation_level=None)) as db:
            _prepare(db)
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


def _prepare(db: sqlite3.Connection) -> None:
    """Settings of the connection, and the table where there is none yet, or an older one."""
    db.execute(f"PRAGMA busy_timeout = {BUSY_SECONDS * 1000:.0f}")
    db.execute("BEGIN IMMEDIATE")
    if db.execute("PRAGMA application_id").fetchone() != (APPLICATION,):
        db.execute(_TABLE)
        db.execute(f"PRAGMA application_id = {APPLICATION}")
        db.execute(f"PRAGMA user_version = {SCHEMA}")
    elif db.execute("PRAGMA user_version").fetchone() == (1,):
        for statement in _FROM_1:
            db.execute(statement)
        db.execute(f"PRAGMA user_version = {SCHEMA}")
    db.execute("COMMIT")
    # after the commit, so that the header of the file itself, and not only its log, says whose it is
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = NORMAL")


def _inspect(path: Path) -> None:
    """Raise for a file that is not sound evidence of ours, without changing a byte of it or beside it."""
    if not path.is_file():
        kind = "a directory" if path.is_dir() else "not a regular file"
        raise StoreError(f"The evidence file {path} is {kind}. Name a file with COROLLARY_STORE.")
    for _ in range(10):
        before = _stamp(path)
        problem = _problem(path)
        if problem is None:
            return
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
        return None  # an empty file is an empty database
    if not header.startswith(b"SQLite format 3\0"[: len(header)]):
        return "is not an SQLite database."
    if len(header) < 100:
        return "is cut short."
    application, version = _word(header, 68), _word(header, 60)
    if application != APPLICATION:
        return "is a database of another program."
    if version > SCHEMA:
        return f"was written by a newer version of corollary (schema {version}, this one knows {SCHEMA})."
    page = int.from_bytes(header[16:18])
    page = 65536 if page == 1 else page
    # the page count in the header is valid when it was written together with the change counter
    if not logged and _word(header, 24) == _word(header, 92) and path.stat().st_size < page * _word(header, 28):
        return f"is cut short: {path.stat().st_size:,} bytes instead of {page * _word(header, 28):,}."
    return _unsound(path, logged)


def _unsound(path: Path, logged: bool) -> str | None:
    """What SQLite's own check says. `immutable` reads the file alone and leaves no lock or log beside it."""
    uri = f"{path.absolute().as_uri()}?mode=ro" + ("" if logged else "&immutable=1")
    try:
        with closing(sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS)) as db:
            (found,) = db.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.DatabaseError as error:
        if getattr(error, "sqlite_errorname", "") in ("SQLITE_BUSY", "SQLITE_CANTOPEN"):
            raise
        found = str(error)
    return None if found == "ok" else f"is damaged ({' '.join(found.split())})."


def _word(header: bytes, offset: int) -> int:
    return int.from_bytes(header[offset : offset + 4])


def _sentence(path: Path, error: sqlite3.Error) -> StoreError:
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
