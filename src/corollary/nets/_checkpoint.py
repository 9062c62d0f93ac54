"""Training kept in a file: a line of JSON that says what it is, then the arrays, by Equinox. Nothing is pickled."""

import json
import os
from pathlib import Path

import equinox as eqx

_FORMAT = "corollary training, 2"


class CheckpointOfAnotherRun(ValueError):
    """A sound file, written by a run with other arguments."""


def save_checkpoint(path: Path, header: dict, arrays) -> None:
    """Write the file in one go: whoever is interrupted here keeps the one before."""
    beside = path.with_name(path.name + ".part")
    with beside.open("wb") as file:
        file.write((json.dumps({"format": _FORMAT} | header) + "\n").encode())
        eqx.tree_serialise_leaves(file, arrays)
    os.replace(beside, path)


def load_checkpoint(path: Path, like):
    """The header and the arrays of a file, the latter as `like(header)` is, or one sentence."""
    try:
        with path.open("rb") as file:
            header = json.loads(file.readline(1 << 20))
            if header.pop("format", None) != _FORMAT:
                raise ValueError
            return header, eqx.tree_deserialise_leaves(file, like(header))
    except CheckpointOfAnotherRun:
        raise
    except OSError as error:
        raise ValueError(f"checkpoint {path} cannot be read: {error.strerror}.") from None
    except Exception:
        raise ValueError(f"checkpoint {path} is damaged, or no checkpoint of this version; move it away.") from None
