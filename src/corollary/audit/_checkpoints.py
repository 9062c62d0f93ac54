"""The files of a training's checkpoints, in the order of their steps."""

import glob
import os
import re

from corollary.audit._errors import SubjectError

KINDS = (".onnx", ".eqx")


def checkpoints(pattern: str) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Steps and files of a pattern such as `ckpt/*.onnx`; one sentence if there are none.

    The step is the last number in the name of a file, if all have one and no two the same; else files are numbered from
    1 in the order of their names, numbers in these by their size.
    """
    files = [path for path in glob.glob(pattern) if os.path.isfile(path)]
    if not files:
        raise SubjectError(f"--checkpoints {pattern} finds no file.")
    for path in files:
        if not path.endswith(KINDS):
            raise SubjectError(f"a checkpoint is an {' or an '.join(KINDS)} file, got {path!r}.")
    files.sort(key=_natural)
    numbers = [re.findall(r"\d{1,15}", os.path.splitext(os.path.basename(path))[0]) for path in files]
    if all(numbers):
        steps = [int(found[-1]) for found in numbers]
        if len(set(steps)) == len(steps):
            return tuple(sorted(steps)), tuple(path for _, path in sorted(zip(steps, files, strict=True)))
    return tuple(range(1, len(files) + 1)), tuple(files)


def _natural(path: str) -> list[tuple[int, int, str]]:
    """The parts of a name, so that 9 comes before 10."""
    parts = re.split(r"(\d+)", path)
    return [(0, int(part), "") if part.isdecimal() and part.isascii() else (1, 0, part) for part in parts]
