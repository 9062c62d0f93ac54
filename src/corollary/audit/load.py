"""What the command line names, as a subject: an ONNX file with its data, a function in a Python file, or the digits."""

import importlib.util
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import equinox as eqx
import jax
import numpy as np

from corollary._text import first_line
from corollary.audit._asked import Asked, function_in, require
from corollary.audit._errors import SubjectError, sentences
from corollary.audit._kinds import Special
from corollary.audit._table import SMALLER, require_room
from corollary.audit.files import class_names, column_names, input_names, read_data
from corollary.audit.npy import has_arrays
from corollary.audit.subject import Subject
from corollary.network import LOSSES, Network


def load(
    network: str | None,
    train=None,
    test=None,
    loss: str | None = None,
    *,
    inputs: Mapping[str, str] | None = None,
    output: str | None = None,
    parameters: Sequence[str] | None = None,
    initial=None,
    learning_rate: float | None = None,
    batch_size: int | None = None,
    memory_limit: float | None = None,
    steps: int | None = None,
    weight_decay: float | None = None,
) -> Subject | Special:
    """The subject: the digits for None, what `file.py:function` returns, or an ONNX file with its data and its loss.

    Of an ONNX file: `inputs` says which array of the data feeds which input, `output` names an output, `parameters`
    what is trained, and `initial` is the file of the network that training started from. With a `memory_limit` in bytes
    what would not fit is not read.
    """
    known = {"learning_rate": learning_rate, "batch_size": batch_size, "steps": steps, "weight_decay": weight_decay}
    require(Asked(network, train, test, loss, inputs, output, parameters, initial, **known))
    if network is None:
        from corollary.audit.digits import digits_subject

        return digits_subject()
    if made := function_in(network):
        return _made(Path(made[0]), made[1])
    if loss is None:
        raise SubjectError(f"an ONNX file needs its loss: --loss NAME, one of {', '.join(LOSSES)}.")
    files = [str(file) for file in (network, initial) if file is not None]
    for file in files:
        require_room(file, os.path.getsize(file), memory_limit, SMALLER)
    # the classes of the test images have the numbers of the training images
    classes = class_names(train) if os.path.isdir(train) and not has_arrays(train) else None
    # and the columns of a test table their places
    options = {"inputs": inputs, "classes": classes, "columns": column_names(train), "memory_limit": memory_limit}
    data = [None if path is None else read_data(path, **options) for path in (train, test)]
    example = _first(train, data[0][0])
    with sentences():
        read = [_onnx(file, loss, example, output, parameters, memory_limit) for file in files]
        start = None if initial is None else read[1]
        subject = Subject(read[0], loss, *data, initial=start, columns=_named(train, data[0][0], inputs), **known)
    if classes is not None:
        numbered = ", ".join(f"{name} {i}" for i, name in enumerate(classes))
        subject.notes += (f"the classes are the folders, in the order of their names: {numbered}.",)
    return subject


def _named(path, x, inputs) -> list[str] | None:
    """The names of the columns of a table that are its input."""
    names = None if inputs is not None else input_names(path)
    return names if names is not None and np.ndim(x) == 2 and len(names) == np.shape(x)[1] else None


def _first(path, x):
    """The first example of a file; one sentence if there is none."""
    for a in jax.tree.leaves(x):
        if a.ndim == 0 or len(a) == 0:
            raise SubjectError(f"{path} must hold at least one example, got an input of shape {a.shape}.")
    return jax.tree.map(lambda a: a[0], x)


def load_other(path: str, subject: Subject, asked: Asked):
    """Another network for the inputs of a subject: of an ONNX file, of a function, or the path of a report as it is."""
    if made := function_in(path):
        return _made(Path(made[0]), made[1])
    if not path.endswith(".onnx"):
        return path
    require_room(path, os.path.getsize(path), asked.memory_limit, SMALLER)
    example = jax.tree.map(lambda a: a[0], subject.train[0])
    try:
        with sentences():
            return _onnx(path, subject.loss_name, example, asked.output, asked.parameters, asked.memory_limit)
    except SubjectError as error:
        raise SubjectError(f"{path} cannot be set beside this network: {error}") from None


def load_checkpoint(path: str, subject: Subject, asked: Asked):
    """The network of a checkpoint: an ONNX file, or what `equinox.tree_serialise_leaves` wrote of the same network."""
    if path.endswith(".onnx"):
        return load_other(path, subject, asked)
    require_room(path, os.path.getsize(path), asked.memory_limit, SMALLER)
    try:
        return eqx.tree_deserialise_leaves(path, subject.network)
    except MemoryError:
        raise
    except Exception as error:  # of NumPy and Equinox, each with its own
        raise SubjectError(f"{path} is of another architecture, or no checkpoint: {first_line(error)}.") from None


def _onnx(path, loss, example, output, parameters, memory_limit) -> Network:
    """The network. A cross-entropy applies a last softmax or sigmoid itself, so it is taken off."""
    from corollary.network import _graph

    model, taken = _graph.load(path, lambda size: require_room(path, size, memory_limit, SMALLER)), None
    if loss in ("cross_entropy", "binary_cross_entropy") and output is None:
        taken = _graph.take_off_probabilities(model)
    _require_inputs(path, [each.name for each in _graph.inputs_of(model)], example)
    network = Network.from_onnx(model, example, output=output, parameters=parameters)
    if taken is None:
        return network
    note = f"the last {taken} of the graph was taken off, because the loss applies it itself."
    options = {"batched": network.batched, "notes": (note, *network.notes), "recomputed": network.recomputed}
    return Network(network.apply, network.params, network.buffers, **options)


def _require_inputs(path, names: Sequence[str], example) -> None:
    """One sentence unless arrays that have names have those of the inputs of the graph."""
    if isinstance(example, dict) and set(example) != set(names):
        asked = " ".join(f"--input {name}=ARRAY" for name in names)
        given = ", ".join(map(repr, example))
        raise SubjectError(f"{path} has the inputs {', '.join(map(repr, names))}, got {given}: give {asked}.")


def _made(path: Path, function: str) -> Subject | Special:
    """Run a function of a Python file of the user's own."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.parent.resolve()))  # it may import its neighbours
    try:
        spec.loader.exec_module(module)
        if not callable(getattr(module, function, None)):
            raise SubjectError(f"{path} has no function {function!r}.")
        subject = getattr(module, function)()
    except SubjectError:
        raise
    except MemoryError:
        raise
    except (Exception, SystemExit) as error:
        raise SubjectError(f"{path}:{function} failed: {first_line(error)}.") from error
    finally:
        sys.path.pop(0)
    if not isinstance(subject, Subject | Special):
        kinds = "a corollary.Subject, or a QSubject or Sampler of corollary.audit"
        raise SubjectError(f"{path}:{function} must return {kinds}, got {type(subject).__name__}.")
    return subject
