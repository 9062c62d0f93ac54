"""Every public function of every room, called with arguments that it cannot take: one sentence of ours, or a result."""

import functools
import importlib
import inspect
import linecache
import re
import traceback
from collections.abc import Iterator
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import corollary
from corollary.robustness import Ball

SOURCE = Path(corollary.__file__).resolve().parent
PACKAGES = [
    package
    for room in corollary.ROOMS
    for package in sorted(
        ".".join(["corollary", *table.parent.relative_to(SOURCE).parts])
        for table in (SOURCE / room).rglob("__init__.pyi")
    )
]

#: functions that are not called with everything, and why
EXCEPTIONS = {
    "gpt2_token_table": "loads another package and its weights, and says that they are not there",
    "leaves_set": "asks a function of the caller for yes or no, and ours gives numbers",
    "multiplications": "hands its arguments to the function of the caller",
    "sequential_steps": "hands its arguments to the function of the caller",
    "teacher_forcing_loss": "asks for more of a network than that it can be called",
    "elementary.sigmoid": "takes a number of any kind, also of the caller's",
}

KEY = jax.random.key(0)
SIZE = 3
SQUARE = np.linspace(-1, 1, SIZE * SIZE, dtype=np.float32).reshape(SIZE, SIZE)
NETWORK, OPTIMISER = eqx.nn.Linear(SIZE, SIZE, key=KEY), optax.sgd(0.1)
ARRAY = re.compile(r"""(\w+)\[(?:ArrayLike|Array), ?["']([^"']*)["']\]""")


signature = functools.cache(inspect.signature)


def functions(package: str):
    """The public functions of a package by name, and those of files that it offers whole."""
    module = importlib.import_module(package)
    for name in module.__all__:
        value = getattr(module, name)
        if inspect.isfunction(value) and inspect.unwrap(value).__module__.startswith("corollary."):  # some are JAX's
            yield name, value
        elif inspect.ismodule(value) and not hasattr(value, "__path__"):
            for inner, function in inspect.getmembers(value, inspect.isfunction):
                if function.__module__ == value.__name__ and not inner.startswith("_"):
                    yield f"{name}.{inner}", function


# A call that should succeed, from the annotations: arguments of one size, with one kind of values.


def mapped(*args):
    """Stands for any function that is asked for: smooth, of the shape of its first argument."""
    return jax.tree.map(jnp.tanh, args[0])


def summed(*args):
    """The same as one number."""
    return sum(jnp.sum(jnp.tanh(leaf)) for leaf in jax.tree.leaves(args[0]))


SIZES = {"sizes": (2, 3, 2)}
INTERVAL = {"u": SQUARE[0], "low": 0.0, "high": 1.0, "panels": 1}

#: Arguments that the annotations do not tell, or that make the work small.
CLASSIFIED = {"loss": "logistic", "data": (SQUARE, np.array([1.0, -1.0, 1.0], np.float32)), "ball": Ball(2, 0.1)}
ATTACKED = CLASSIFIED | {"network": eqx.nn.Linear(SIZE, 1, key=KEY)}
OWN: dict[str, dict] = {
    "fgsm": ATTACKED,
    "pgd": ATTACKED | {"steps": 2},
    "finite_difference_pgd": ATTACKED | {"steps": 2},
    "transfer": ATTACKED | {"source": eqx.nn.Linear(SIZE, 1, key=KEY), "steps": 2},
    "straight_attack": {name: ATTACKED[name] for name in ("network", "loss", "data")} | {"towards": -SQUARE},
    "nearest_other_class": {"data": CLASSIFIED["data"], "among": CLASSIFIED["data"]},
    "danskin_gap": ATTACKED | {"steps": 2, "key": KEY},
    "adversarial_loss": {"ball": Ball(2, 0.1)},
    "worst_margin": {"ball": Ball(2, 0.1), "y": np.ones(SIZE, np.float32)},
    "linear_adversarial_risk": {"ball": Ball(2, 0.1), "y": np.ones(SIZE, np.float32), "loss": "hinge"},
    "flip_distance": {"p": 2},
    "relu_worst_margin": {"ball": Ball(2, 0.1)},
    "smallest_perturbation": {name: ATTACKED[name] for name in ("network", "data")} | {"p": 2, "steps": 2, "rounds": 2},
    "robust_accuracy": {name: ATTACKED[name] for name in ("network", "loss", "data")} | {"p": 2, "radii": [0.0, 0.1]},
    "convolve_functions": INTERVAL,
    "fourier_transform": INTERVAL,
    "integral_operator": INTERVAL,
    "hessian_inertia": SIZES,
    "hessian_spectrum": SIZES,
    "teacher_bound": {"kind": "linear"},
    "sphere_series": {"kernel": "gaussian"},
    "dual_kernel": {"phi": "relu"},
    "dual_derivative": {"phi": "relu"},
    "normalising_constant": {"phi": "relu"},
    "meeting_point": {"weight": np.ones((4, 3)) + np.eye(4, 3), "bias": np.ones(4)},
    "find_mcculloch_pitts": {"table": np.array([0, 0, 0, 1])},
    "radix2_fft": {"x": np.ones(4)},
    "receptive_field": {"layers": [(3, 1), (2, 2)]},
}

#: axes of `...`, the values of arrays, sizes, what functions return
PROFILES = [
    (any_axes, values, whole, function)
    for whole, function in ((2, mapped), (3, summed))
    for any_axes in ((), (3,), (3, 3), (1, 3, 3))
    for values in ("within 0 and 1", "above 1", "semidefinite", "a law", "signs")
]


def array(kind: str, axes: str, any_axes: tuple[int, ...], values: str, shift: float) -> np.ndarray:
    shape: list[int] = []
    for axis in axes.split():
        more = re.fullmatch(r"\w+\+(\d)", axis)
        fixed = int(axis) if axis.isdigit() else SIZE + int(more[1]) if more else SIZE
        shape += any_axes if axis == "..." else [fixed]
    count = int(np.prod(shape))
    if kind in ("Int", "Bool"):
        return (np.arange(count) % 2).reshape(shape).astype(np.int32 if kind == "Int" else bool)
    found = shift + (np.linspace(0.2, 0.7, count).reshape(shape) if count > 1 else np.full(shape, 0.5))
    if values == "above 1":
        found = found + 1.5
    if values == "semidefinite" and len(shape) > 1 and shape[-1] == shape[-2]:
        found = np.broadcast_to(np.eye(shape[-1]) + 0.1, shape)
    if values == "a law" and shape:
        found = found / found.sum(-1, keepdims=True)
    if values == "signs":
        found = np.where(np.arange(count) % 2, 1.0, -1.0).reshape(shape)
    return found.astype(np.complex64 if kind == "Complex" else np.float32)


def valid(parameter: inspect.Parameter, profile: tuple, place: int):
    """A value that the annotation allows; in later places somewhat larger ones, as of two ends of an interval."""
    any_axes, values, whole, function = profile
    shift = place / 64
    annotation = parameter.annotation
    text = annotation.__name__ if isinstance(annotation, type) else str(annotation)
    if parameter.name == "graph":
        return np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    if found := ARRAY.search(text):
        return array(found[1], found[2], any_axes, values, shift)
    first = text.split(" | ")[0].partition("[")[0]
    known = {
        "Scalar": shift + (2.0 if values == "above 1" else 0.5),
        "float": shift + (2.0 if values == "above 1" else 0.5),
        "int": whole,
        "bool": True,
        "str": "word",
        "PRNGKeyArray": KEY,
        "NetworkLike": NETWORK,
        "LossLike": "squared",
        "Callable": function,
        "ArrayLike": array("Float", "...", any_axes, values, shift),
        "Array": array("Float", "...", any_axes, values, shift),
        "PyTree": (SQUARE, SQUARE) if parameter.name == "data" else SQUARE,
        "optax.GradientTransformation": OPTIMISER,
    }
    if first == "Sequence" or first == "tuple":
        inner = text.partition("[")[2].partition("]")[0].split(",")[0]
        return (SQUARE if inner == "PyTree" else known.get(inner, SQUARE),) * 2
    return known.get(first, SQUARE if first in ("_empty", "Any") else None)


def arguments(function, profile: tuple) -> dict:
    """A value for every argument of a function, whether it needs one or not."""
    named = enumerate(signature(function).parameters.values())
    found = {p.name: (p, valid(p, profile, place)) for place, p in named if p.kind is not p.VAR_KEYWORD}
    given = {name: (value, value) if p.kind is p.VAR_POSITIONAL else value for name, (p, value) in found.items()}
    return given | OWN.get(function.__name__, {})


def call(function, given: dict):
    bound = inspect.BoundArguments(signature(function), given)
    return function(*bound.args, **bound.kwargs)


# What is wrong, one argument at a time.


def wrong(value) -> dict:
    """Values of all kinds that an argument cannot have, by what is wrong with them, made after one that it can have."""
    others = {"beyond 64 bits": 2**70, "a word": "no word", "nothing": None, "NaN": float("nan"), "complex": 0.5j}
    if not isinstance(value, float | np.ndarray):
        return others | {"empty": np.zeros(0, np.float32), "negative": -1}
    like = np.asarray(value, np.float32)
    return others | {
        "two axes more": np.full((2, 5, *like.shape), 0.5, np.float32),
        "other sizes": np.full((7,) * max(like.ndim, 1), 0.5, np.float32),
        "NaN": np.full_like(like, np.nan),
        "empty": np.zeros((0, *like.shape[1:]), np.float32),
        "complex": like + 0.5j,
        "half precision": like.astype(np.float16),
    }


def outcome(function, given: dict) -> Exception | None:
    """The error in which a call ends, if any. Arguments are looked at; what is computed with them need not be run."""
    try:
        jax.eval_shape(lambda: (call(function, given), None)[1])
    except (jax.errors.JAXTypeError, jax.errors.JAXIndexError):  # it looks at what it has computed
        try:
            call(function, given)
        except Exception as error:
            return error
    except Exception as error:
        return error
    return None


def ours(error: Exception | None) -> bool:
    """Whether a call ended in a result, or in a sentence: an error of our kinds that a file of ours raises.

    What our own `mapped` and `summed` make of what they are given is the fault of the caller.
    """
    if error is None:
        return True
    *_, (frame, line) = frames = [*traceback.walk_tb(error.__traceback__)]
    if any(f.f_code in (mapped.__code__, summed.__code__) for f, _ in frames):
        return True
    file = frame.f_code.co_filename
    kind = isinstance(error, ValueError | TypeError) or type(error).__module__.startswith("corollary.")
    return kind and file.startswith(str(SOURCE)) and linecache.getline(file, line).strip().startswith("raise ")


@functools.cache
def good_call(function) -> tuple[dict, dict] | None:
    """Arguments with which a function gives a result, those that it needs, and values for all that it has."""
    named = signature(function).parameters
    for profile in PROFILES:
        every = arguments(function, profile)
        own = OWN.get(function.__name__, ())
        needed = {n: value for n, value in every.items() if n in own or named[n].default is inspect.Parameter.empty}
        if outcome(function, needed) is None:
            return needed, every
    return None


def complaints(function) -> Iterator[str]:
    """The ways in which wrong arguments end in something else than a result or a sentence of ours."""
    every = arguments(function, PROFILES[0])
    needed, every = good_call(function) or (every, every)
    named = signature(function).parameters
    for name, value in every.items():
        several = named[name].kind is inspect.Parameter.VAR_POSITIONAL
        for what, instead in wrong(value[0] if several else value).items():
            error = outcome(function, needed | {name: (instead,) if several else instead})
            if not ours(error):
                yield f"{name}, {what}: {type(error).__name__}: {error}".partition("\n")[0]


@pytest.fixture(autouse=True)
def whole_tracebacks():
    """JAX takes its own frames out of tracebacks unless told not to, which takes most of the time here."""
    before = jax.config.jax_traceback_filtering
    jax.config.update("jax_traceback_filtering", "off")
    yield
    jax.config.update("jax_traceback_filtering", before)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("package", PACKAGES)
def test_wrong_arguments_end_in_a_result_or_a_sentence(package, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # a word may be the name of a file to write
    tried = {name: [*complaints(function)] for name, function in functions(package) if name not in EXCEPTIONS}
    assert {name: problems for name, problems in tried.items() if problems} == {}


@pytest.mark.filterwarnings("ignore")
def test_most_functions_are_called_with_arguments_that_are_right_but_for_one():
    rooms = ("corollary.foundations", "corollary.linear", "corollary.memory")
    found = [good_call(function) is not None for package in rooms for _, function in functions(package)]
    assert sum(found) > 0.9 * len(found)
