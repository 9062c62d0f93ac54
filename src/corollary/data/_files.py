"""Files of real data: from `COROLLARY_DATA`, the checkout, the user's cache, or a public mirror; always verified.

The checksum is that of the unpacked content: mirrors and archives compress the same file differently.
"""

import gzip
import hashlib
import os
import sys
import tempfile
import urllib.error
import urllib.request
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPException
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

TIMEOUT = 20.0  # seconds without an answer before the next mirror is asked
_CHUNK = 1 << 16
_GZIP = b"\x1f\x8b"


class DataError(RuntimeError):
    """Data that is missing, damaged or cannot be fetched; the message says which and what to do."""


class File(NamedTuple):
    """One data file: `name` as stored (.gz: packed), `sha256` and `size` of its unpacked content."""

    folder: str
    name: str
    sha256: str
    size: int
    mirrors: tuple[str, ...]


def load(file: File) -> bytes:
    """The unpacked, verified content of `file`, downloaded into the cache if this machine has no copy."""
    for directory in (_chosen_directory(), checkout_directory()):
        if directory is not None and (own := _find(file, directory)) is not None:
            return _verified(file, own)
    cached = cache_directory() / file.folder / file.name
    if cached.is_file():
        # A damaged cache is ours to repair, unlike a damaged file of the user's.
        with suppress(DataError):
            return _verified(file, cached)
    return _download(file, cached)


def unpack(path: Path, limit: int | None = None) -> bytes:
    """The content of a plain or gzip-compressed file; at most `limit + 1` bytes of it if a limit is given."""
    most = -1 if limit is None else limit + 1
    try:
        with open(path, "rb") as raw:
            packed = raw.read(2) == _GZIP
        with gzip.open(path, "rb") if packed else open(path, "rb") as stream:
            return stream.read(most)
    except EOFError:
        raise DataError(f"{path} is truncated: its gzip stream ends too early.") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise DataError(f"{path} is damaged and cannot be unpacked ({error}).") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read ({_reason(error)}).") from None


def checkout_directory() -> Path | None:
    """The data that the repository carries, if this code runs from a checkout of it."""
    source = Path(__file__).resolve().parents[2]  # "site-packages" where corollary is installed
    carried = source.parent / "data"
    return carried if source.name == "src" and (carried / "SHA256SUMS").is_file() else None


def cache_directory() -> Path:
    """Where downloaded files are kept for this user."""
    import platformdirs

    return Path(platformdirs.user_cache_dir("corollary", appauthor=False))


def _chosen_directory() -> Path | None:
    """The directory that `COROLLARY_DATA` names."""
    chosen = os.environ.get("COROLLARY_DATA")
    if not chosen:
        return None
    root = Path(chosen).expanduser()
    if not root.is_dir():
        raise DataError(f"COROLLARY_DATA must name a directory, got {chosen!r}.")
    return root


def _find(file: File, root: Path) -> Path | None:
    """The file in a directory, packed or not, directly or in its folder."""
    names = dict.fromkeys((file.name, file.name.removesuffix(".gz")))
    return next((p for d in (root, root / file.folder) for n in names if (p := d / n).is_file()), None)


def _verified(file: File, path: Path) -> bytes:
    content = unpack(path, limit=file.size)
    if hashlib.sha256(content).hexdigest() != file.sha256:
        raise DataError(f"{path} is not the expected file: its content has a different SHA-256 checksum.")
    return content


def _download(file: File, target: Path) -> bytes:
    failures = []
    for url in file.mirrors:
        try:
            with _temporary(target) as partial:
                _fetch(url, partial, file)
                content = _verified(file, partial)
                os.replace(partial, target)
                return content
        except DataError as error:
            # the temporary file means nothing to the reader
            why = str(error).replace(f"{partial} is", "what it sent is").rstrip(".")
            failures.append(f"{urlsplit(url).netloc}: {why}")
        except OSError as error:
            raise DataError(
                f"{file.name} cannot be stored in the cache {target.parent} ({_reason(error)}); make it "
                f"writable or set COROLLARY_DATA to a directory that holds the file."
            ) from None
    tried = f"could not be downloaded ({'; '.join(failures)})" if failures else "no mirror of it is known"
    raise DataError(
        f"{file.name} is neither in COROLLARY_DATA nor intact in the cache, and {tried}; put it into "
        f"{target.parent}, or into a directory that COROLLARY_DATA names."
    )


@contextmanager
def _temporary(target: Path) -> Iterator[Path]:
    """A file of our own beside `target`, gone afterwards unless it was renamed: nobody sees half a file."""
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent)
    os.close(handle)
    try:
        yield Path(name)
    finally:
        Path(name).unlink(missing_ok=True)


def _fetch(url: str, partial: Path, file: File) -> None:
    """Store what `url` sends. `DataError`: the mirror is to blame; `OSError`: our own disk."""
    request = urllib.request.Request(url, headers={"User-Agent": "corollary"})
    most = file.size + file.size // 100 + _CHUNK  # gzip adds less than that to what it cannot compress
    with _network():
        answer = urllib.request.urlopen(request, timeout=TIMEOUT)
    with answer, open(partial, "wb") as out:
        length = answer.headers.get("Content-Length")
        expected = int(length) if length and length.isdigit() else None
        got = 0
        with _progress(file.name, expected) as advance:
            while True:
                with _network():
                    chunk = answer.read(_CHUNK)
                if not chunk:
                    break
                got += len(chunk)
                if got > most:
                    raise DataError("it sent more than the file holds")
                out.write(chunk)
                advance(len(chunk))
    if expected is not None and got < expected:
        raise DataError(f"the connection ended after {got} of {expected} bytes")


@contextmanager
def _network() -> Iterator[None]:
    """Everything that can go wrong with a mirror as a `DataError` of a few words."""
    try:
        yield
    except urllib.error.HTTPError as error:
        error.close()
        raise DataError(f"HTTP status {error.code}") from None
    except urllib.error.URLError as error:
        raise DataError(_reason(error.reason)) from None
    except (OSError, HTTPException) as error:
        raise DataError(_reason(error)) from None


@contextmanager
def _progress(name: str, total: int | None):
    """A bar on the terminal; silent where nobody watches."""
    if not sys.stderr.isatty():
        yield lambda count: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(name, total=total)
        yield lambda count: bar.update(task, advance=count)


def _reason(error: BaseException | str) -> str:
    """A few words on one line: some exceptions quote what a server sent, line ends and all."""
    return " ".join(str(getattr(error, "strerror", None) or error).split()) or type(error).__name__
