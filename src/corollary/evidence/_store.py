"""Evidence in an SQLite file: one row per claim, parameters, seed, version of the code and of JAX, and device."""

import json
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from corollary.evidence import _store_file as file
from corollary.evidence._errors import StoreError
from corollary.evidence._evidence import Evidence, from_json, to_json

_ALL = ", ".join(file.COLUMNS)
_KEY = file.COLUMNS[:6]


class Store:
    """Evidence in a file that several runs may use at once, and that a killed run leaves whole.

    A file that is there already is looked at before it is touched. One that is damaged, or not ours, stays as it is.
    Every row has a checksum: a row that does not fit it is set aside, is no evidence any more, and is named in `words`.
    """

    def __init__(self, path: str | os.PathLike):
        self.words: list[str] = []
        try:
            self.path = Path(path).resolve()  # SQLite puts its log beside the file itself, not beside a link to it
            self.path.parent.mkdir(parents=True, exist_ok=True)
            if not self.path.exists():
                file.create(self.path)
            sound = file.inspect(self.path)
            self._db = sqlite3.connect(self.path, timeout=file.BUSY_SECONDS, isolation_level=None)
        except sqlite3.Error as error:
            raise file.sentence(self.path, error) from None
        except (OSError, RuntimeError) as error:  # the latter for links that lead nowhere
            reason = getattr(error, "strerror", None) or error
            raise StoreError(f"The evidence file {path} cannot be used: {reason}. {file.ELSEWHERE}") from None
        try:
            file.prepare(self._db)  # takes the lock to write, so that a read-only place is noticed now
            self._identity = _identity(self.path)
            if not sound:
                self._mend_index()
        except sqlite3.Error as error:
            self._db.close()
            raise file.sentence(self.path, error) from None
        except OSError:
            self._db.close()
            self._identity = None
            self.still_there()

    def get(self, claim: str, parameters: dict, seed: int, code: str, jax: str, device: str) -> Evidence | None:
        """The evidence under this key, if there is any."""
        key = (claim, _canonical(parameters), seed, code, jax, device)
        return next(self._read(f"WHERE {' AND '.join(f'{c} = ?' for c in _KEY)}", key), None)

    def put(self, evidence: Evidence) -> None:
        """Keep `evidence`; what was there under its key is replaced. On return it is on its way to the disk."""
        e = evidence
        row = (e.claim, _canonical(e.parameters), e.seed, e.code, e.jax, e.device, e.verdict, e.started, to_json(e))
        try:
            marks = ", ".join("?" * (len(row) + 1))
            self._db.execute(f"INSERT OR REPLACE INTO evidence VALUES ({marks})", (*row, file.digest(*row)))
        except sqlite3.Error as error:
            raise file.sentence(self.path, error) from None

    def __iter__(self) -> Iterator[Evidence]:
        return self._read("ORDER BY claim, parameters, seed, started")

    def all(self) -> list[Evidence]:
        """All evidence, that of earlier versions of the code too, ordered by claim, parameters and seed."""
        return list(self)

    def __len__(self) -> int:
        return self._db.execute("SELECT count(*) FROM evidence").fetchone()[0]

    def still_there(self) -> None:
        """Raise if the file was deleted or replaced since it was opened: what was put since then is lost."""
        try:
            same = self._identity is not None and _identity(self.path) == self._identity
        except OSError:
            same = False
        if not same:
            raise StoreError(
                f"The evidence file {self.path} was deleted or replaced while it was in use, and the results with it. "
                "Run the same command again."
            )

    def close(self) -> None:
        """Close the file. Everything that was put is kept, also without this."""
        self._db.close()

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def _read(self, where: str, values: tuple = ()) -> Iterator[Evidence]:
        damaged = []
        try:
            for number, sum_, *row in self._db.execute(f"SELECT rowid, digest, {_ALL} FROM evidence {where}", values):
                found = _sound(row, sum_)
                if found is None:
                    damaged.append((number, row))
                else:
                    yield found
            for number, row in damaged:  # afterwards: it would disturb a query that is still running
                self._set_aside(number, row)
        except sqlite3.Error as error:
            raise file.sentence(self.path, error) from None

    def _set_aside(self, number: int, row: list) -> None:
        self._db.execute("BEGIN IMMEDIATE")
        self._db.execute("INSERT INTO aside VALUES (?)", (repr(row),))
        self._db.execute("DELETE FROM evidence WHERE rowid = ?", (number,))
        self._db.execute("COMMIT")
        self.words.append(f"A damaged row was set aside in {self.path}: {row[0]}, seed {row[2]}. It is measured again.")

    def _mend_index(self) -> None:
        """Make the index anew where it does not fit the table, so that no row is overlooked and then there twice."""
        list(self._read("NOT INDEXED"))  # rows with damaged keys would be in the way
        self._db.execute("REINDEX evidence")
        self.words.append(f"The index of {self.path} was damaged, and was made anew.")


def default_path() -> Path:
    """Where evidence goes: the file that `COROLLARY_STORE` names, or one in the user's data directory."""
    if named := os.environ.get("COROLLARY_STORE"):
        return Path(named).expanduser()
    from platformdirs import user_data_dir

    return Path(user_data_dir("corollary", appauthor=False)) / "evidence.db"


def _sound(row: list, sum_: str) -> Evidence | None:
    """The evidence in a row, if it is what was put there."""
    if file.digest(*row) != sum_:
        return None
    try:
        return from_json(row[-1])
    except (ValueError, TypeError, KeyError):
        return None


def _identity(path: Path) -> tuple[int, int]:
    stat = path.stat()
    return stat.st_dev, stat.st_ino


def _canonical(parameters: dict) -> str:
    return json.dumps(parameters, sort_keys=True, separators=(",", ":"), allow_nan=False)
