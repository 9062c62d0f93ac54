"""What the options of the command line stand for: pairs, claims of one's own, places to read from and to write to."""

import os
import stat
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path

from corollary._text import visible
from corollary.evidence._errors import ParameterError, Stopped, StoreError, UserError


class Output:
    """`with Output(path) as file: ...; file.write(text)`: a file that is tried out first, and whole or not there.

    A file that was not there before is gone again if the work ends without a text; one that was is left as it was.
    """

    def __init__(self, path: Path, option: str = "--out"):
        self.path, self.option, self.made, self.written = path, option, False, False

    def __enter__(self) -> "Output":
        self.made = not os.path.lexists(self.path)
        try:
            with open(self.path, "ab") as file:  # neither cuts an old report off nor changes it
                if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    file.write(b"\n")  # a device is asked by writing to it
        except (OSError, ValueError) as error:
            raise self._refused(error) from None
        return self

    def write(self, text: str) -> None:
        try:
            with open(self.path, "w", encoding="utf-8", errors="backslashreplace") as file:
                file.write(text)
        except OSError as error:
            raise self._refused(error) from None
        self.written = True

    def __exit__(self, *problem) -> None:
        if self.made and not self.written:
            self.path.unlink(missing_ok=True)

    def _refused(self, error: Exception) -> UserError:
        return UserError(f"{self.option} {self.path} cannot be written: {getattr(error, 'strerror', None) or error}.")


@contextmanager
def outputs(paths: dict[str, Path | None]):
    """`with outputs({"--out": path, ...}) as files: ...; files["--out"].write(text)`: those of the options given."""
    given = {option: path for option, path in paths.items() if path is not None}
    for option, path in given.items():
        for other in given:
            if other < option and os.path.abspath(given[other]) == os.path.abspath(path):
                raise UserError(f"{other} and {option} would both write {path}.")
    with ExitStack() as stack:
        yield {option: stack.enter_context(Output(path, option)) for option, path in given.items()}


def existing_store(path: Path | None):
    """A store that is there already."""
    from corollary.evidence._store import Store, default_path

    path = path or default_path()
    if not os.path.exists(path):
        raise StoreError(f"There is no evidence file {path}.")
    return Store(path)


def say(words: list[str]) -> None:
    """What the store has to say, beside the results."""
    for word in words:
        print(visible(f"corollary: {word}"), file=sys.stderr)


def pairs(option: str, texts: list[str]) -> dict[str, str]:
    """The pairs name=value that an option was given."""
    found = {}
    for text in texts:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not (name and equals and value):
            raise ParameterError(f"{option} takes name=value, got {text!r}.")
        if found.setdefault(name, value) != value:
            raise ParameterError(f"{option} gives {name} two values, {found[name]} and {value}.")
    return found


def know(own: list[str] | None) -> None:
    """Let claims of the user's own be found, by us and by the workers."""
    if own:
        os.environ["COROLLARY_CLAIMS"] = ",".join([*filter(None, [os.environ.get("COROLLARY_CLAIMS")]), *own])


def make_directory(path: Path) -> None:
    """A directory that is there and can be written to, or one sentence."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"The directory {path} cannot be made: {error.strerror}.") from None
    if not os.access(path, os.W_OK):
        raise UserError(f"Nothing can be written into the directory {path}: it is write-protected.")


def drawn(evidence, directory: Path) -> None:
    """The figure of a result, in a directory; one sentence if there is no room for it."""
    from corollary.evidence import save

    try:
        save(evidence, directory)
    except OSError as error:
        raise Stopped(
            f"The figure of {evidence.claim} cannot be written to {directory}: {error.strerror}. The evidence is in "
            "the store, and the same command draws it."
        ) from None
