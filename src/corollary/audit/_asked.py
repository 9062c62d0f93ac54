"""What the command line asks of an audit; what cannot be is said before anything large is imported."""

import os
import shlex
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from corollary.audit._budget import BUDGETS
from corollary.audit._checkpoints import checkpoints
from corollary.audit._errors import SubjectError

#: the options that describe an ONNX file, and the fields of `Asked` that they fill
OPTIONS = {
    "--train": "train",
    "--test": "test",
    "--loss": "loss",
    "--input": "inputs",
    "--output": "output",
    "--parameters": "parameters",
    "--initial": "initial",
    "--learning-rate": "learning_rate",
    "--batch-size": "batch_size",
    "--steps": "steps",
    "--weight-decay": "weight_decay",
}


class Asked(NamedTuple):
    """A network by name, what describes it, and how it is to be audited: all of it text and numbers."""

    network: str | None
    train: str | None = None
    test: str | None = None
    loss: str | None = None
    inputs: Mapping[str, str] | None = None
    output: str | None = None
    parameters: Sequence[str] | None = None
    initial: str | None = None
    learning_rate: float | None = None
    batch_size: int | None = None
    budget: str = "quick"
    memory_limit: float | None = None
    steps: int | None = None
    weight_decay: float | None = None
    attempts: int = 0
    against: str | None = None
    checkpoints: str | None = None
    accepted: Sequence[Sequence[str]] = ()

    @property
    def name(self) -> str:
        """What the report calls the network."""
        return self.network or "A network trained on the digits"

    @property
    def command(self) -> str:
        """The command that asks for this."""
        words = ["corollary", "audit", *([self.network] if self.network else [])]
        for option, field in OPTIONS.items():
            value = getattr(self, field)
            if isinstance(value, Mapping):
                words += [word for pair in value.items() for word in (option, "=".join(pair))]
            elif value is not None:
                words += [option, str(value) if isinstance(value, str | int | float) else ",".join(value)]
        words += ["--budget", self.budget] if self.budget != "quick" else []
        words += ["--try", str(self.attempts)] if self.attempts else []
        words += ["--against", self.against] if self.against is not None else []
        words += ["--checkpoints", self.checkpoints] if self.checkpoints is not None else []
        return shlex.join(words)


def function_in(network: str | None) -> tuple[str, str] | None:
    """The file and the function of `file.py:function`; None if the network is something else."""
    file, colon, function = (network or "").rpartition(":")
    return (file, function) if colon and file.endswith(".py") else None


def require_other(option: str, path: str | None, *more: str) -> None:
    """One sentence if another network is neither an ONNX file, nor file.py:function, nor one of the other kinds."""
    if path is None:
        return
    made = function_in(path)
    if not made and not path.endswith((".onnx", *more)):
        kinds = ", ".join(["an .onnx file", *(f"a {kind} report" for kind in more)])
        raise SubjectError(f"{option} takes {kinds} or file.py:function, got {path!r}.")
    if not os.path.isfile(made[0] if made else path):
        raise SubjectError(f"{made[0] if made else path} is not a file.")


def require(asked: Asked) -> None:
    """One sentence if what is asked for cannot be: no such file, or options that do not go with the network."""
    if asked.budget not in BUDGETS:
        raise SubjectError(f"--budget must be one of {', '.join(BUDGETS)}, got {asked.budget!r}.")
    require_other("--against", asked.against, ".json")
    if asked.checkpoints is not None:
        checkpoints(asked.checkpoints)
    made = function_in(asked.network)
    given = [option for option, name in OPTIONS.items() if getattr(asked, name) is not None]
    if given and asked.network is None:
        raise SubjectError(f"{' and '.join(given)} would describe an ONNX file: name the file first.")
    if given and made:
        raise SubjectError(
            f"{' and '.join(given)} would describe an ONNX file: a function makes its subject with them itself."
        )
    if asked.network is None:
        return
    if not made and not asked.network.endswith(".onnx"):
        raise SubjectError(f"a network is an .onnx file or file.py:function, got {asked.network!r}.")
    for file in (made[0] if made else asked.network, asked.initial):
        if file is not None and not os.path.isfile(file):
            raise SubjectError(f"{file} is not a file.")
    if made:
        return
    if asked.train is None:
        raise SubjectError(
            "an ONNX file needs its training data: --train FILE, an .npz, .csv or .parquet file or a folder of .npy "
            "files or of images."
        )
    for data in (asked.train, asked.test):
        if data is not None and not os.path.exists(data):
            raise SubjectError(f"{data} is not a file.")
