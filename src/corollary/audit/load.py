"""What the command line names, as a subject: an ONNX file with its data, a function in a Python file, or the digits."""

import importlib.util
import sys
from pathlib import Path

from corollary.audit._errors import SubjectError, sentences
from corollary.audit.npz import read_npz
from corollary.audit.subject import Subject
from corollary.network import Network
from corollary.network.apart import first_line


def load(what: str | None, train=None, test=None, loss: str | None = None, **known) -> Subject:
    """The subject: the digits for None, what `file.py:function` returns, or an ONNX file with `train` and `loss`."""
    if what is None:
        if train is not None or loss is not None:
            raise SubjectError("--train and --loss describe an ONNX file: name the file first.")
        from corollary.audit.digits import digits_subject

        return digits_subject()
    name, colon, function = what.rpartition(":")
    if colon and name.endswith(".py"):
        return _made(Path(name), function)
    if not what.endswith(".onnx"):
        raise SubjectError(f"a network is an .onnx file or file.py:function, got {what!r}.")
    if not Path(what).is_file():
        raise SubjectError(f"{what} is not a file.")
    if train is None:
        raise SubjectError("an ONNX file needs its training data: --train train.npz with the arrays x and y.")
    if loss is None:
        raise SubjectError("an ONNX file needs its loss: --loss cross_entropy or --loss squared.")
    data = read_npz(train), None if test is None else read_npz(test)
    with sentences():
        return Subject(*_onnx(what, loss, data[0][0]), *data, **known)


def _onnx(path, loss, x):
    """The network and its loss. The cross-entropy applies a last softmax or sigmoid itself, so it is taken off."""
    from corollary.network import _graph

    model = _graph.load(path)
    taken = _graph.take_off_probabilities(model) if loss == "cross_entropy" else None
    network = Network.from_onnx(model, x[0])
    if taken is None:
        return network, loss
    note = f"the last {taken} of the graph was taken off, because the cross-entropy applies it itself."
    return Network(network.apply, network.params, network.buffers, notes=(note, *network.notes)), loss


def _made(path: Path, function: str) -> Subject:
    """Run a function of a Python file of the user's own."""
    if not path.is_file():
        raise SubjectError(f"{path} is not a file.")
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
    except Exception as error:
        raise SubjectError(f"{path}:{function} failed: {first_line(error)}.") from error
    finally:
        sys.path.pop(0)
    if not isinstance(subject, Subject):
        raise SubjectError(f"{path}:{function} must return a corollary.Subject, got {type(subject).__name__}.")
    return subject
