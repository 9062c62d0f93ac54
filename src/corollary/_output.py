"""A file that is written at the end of long work; that it cannot be is found at the beginning."""

import os
import stat
from pathlib import Path

from corollary.evidence._errors import UserError


class Output:
    """`with Output(path) as file: ...; file.write(text)`: a file that is tried out first, and whole or not there.

    A file that was not there before is gone again if the work ends without a text; one that was is left as it was.
    """

    def __init__(self, path: Path):
        self.path, self.made, self.written = path, False, False

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
        return UserError(f"--out {self.path} cannot be written: {getattr(error, 'strerror', None) or error}.")
