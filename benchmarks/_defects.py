"""Defects that are planted in networks of a population, in five strengths, and what the audit should call them."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

DENSE = ("dense 1 hidden", "dense 2 hidden", "dense 4 hidden", "convolutional")
CLASSES = (*DENSE, "residual", "recurrent", "attention")
ALL = (*CLASSES, "regression")
LANGUAGE = ("language",)
TOLD, EVERY = (*CLASSES, *LANGUAGE), (*ALL, *LANGUAGE)


class Recipe(NamedTuple):
    """A network about to be trained: its start, data, step and decay, and what of it is never trained."""

    start: Any
    train: tuple
    test: tuple
    step: float
    decay: float
    fixed: Any = ()


class Defect(NamedTuple):
    """`names` are the findings that call it by its name. `before` changes a recipe, `after` trained parameters."""

    names: tuple[str, ...]
    families: tuple[str, ...]
    strengths: tuple[float, ...]
    before: Callable | None = None
    after: Callable | None = None


def _step(recipe, strength, rng):
    return recipe._replace(step=recipe.step * strength)


def _started(recipe, strength, rng):
    """All weights of the start but those of the last layer, times the strength."""
    *inner, last = recipe.start
    return recipe._replace(start=[*([strength * w, b] for w, b in inner), last])


def _inputs(recipe, strength, rng):
    (x, y), (x_test, y_test) = recipe.train, recipe.test
    return recipe._replace(train=(strength * x, y), test=(strength * x_test, y_test))


def _dead(recipe, strength, rng):
    """The strength is the share of units of the last hidden layer that give zero to every example."""
    *inner, (w, b), last = recipe.start
    off = np.arange(len(b)) < round(strength * len(b))
    return recipe._replace(start=[*inner, [w, b - 100.0 * off.astype(np.float32)], last])


def _other(y, share, rng):
    """Other classes, drawn at random, for a share of the examples, or of the tokens."""
    out, kinds = y.ravel().copy(), int(y.max()) + 1
    rows = rng.permutation(len(out))[: round(share * len(out))]
    out[rows] = (out[rows] + rng.integers(1, kinds, len(rows))) % kinds
    return out.reshape(y.shape)


def _wrong(recipe, strength, rng):
    x, y = recipe.train
    return recipe._replace(train=(x, _other(y, strength, rng)))


def _shuffled(recipe, strength, rng):
    x, y = recipe.test
    return recipe._replace(test=(x, _other(y, strength, rng)))


def _leaked(recipe, strength, rng):
    """The first input tells the label, in a share of all examples."""

    def told(x, y):
        x, seen = np.array(x), rng.random(len(y)) < strength
        x[:, 0] = np.where(seen, np.asarray(y, np.float32) / max(1, y.max()), x[:, 0])
        return x, y

    return recipe._replace(train=told(*recipe.train), test=told(*recipe.test))


def _copied(recipe, strength, rng):
    """A share of the test examples are training examples."""
    (x, y), (x_test, y_test) = recipe.train, recipe.test
    rows = rng.permutation(len(y_test))[: round(strength * len(y_test))]
    taken = rng.integers(0, len(y), len(rows))
    x_test, y_test = np.array(x_test), np.array(y_test)
    x_test[rows], y_test[rows] = x[taken], y[taken]
    return recipe._replace(test=(x_test, y_test))


def _ahead(recipe, strength, rng):
    """Later tokens count in the attention, the strength times as much as earlier ones."""
    return recipe._replace(fixed=recipe.fixed._replace(ahead=np.float32(strength)))


def _nowhere(recipe, strength, rng):
    """Tokens forget their places: one minus the strength is left of what tells these."""
    return recipe._replace(fixed=recipe.fixed._replace(places=np.float32(1 - strength)))


def _unshown(recipe, strength, rng):
    """Of one token, a common one rather than a rare one, a share is replaced by others of the training text."""
    x, y = recipe.train
    text = np.concatenate([x[:, :1], y], 1)
    token = rng.choice(recipe.test[1].ravel())
    gone = (text == token) & (rng.random(text.shape) < strength)
    text[gone] = rng.choice(text[text != token], gone.sum())
    return recipe._replace(train=(text[:, :-1], text[:, 1:]))


def _sharpened(params, strength):
    """All outputs times the strength."""
    *inner, (w, b) = params
    return [*inner, [strength * w, strength * b]]


def _faded(params, strength):
    """The last layer forgets its input: one minus the strength is left of its weights."""
    *inner, (w, b) = params
    return [*inner, [(1 - strength) * w, b]]


GAPS = ("gap between training and test error", "gap between training and test loss")
DEFECTS = {
    "step too long": Defect(("largest stable step", "sharpness against 2/η"), EVERY, (4, 16, 64, 256, 1024), _step),
    "step too short": Defect(
        ("steps to fit", "residual left after a million steps", "gradient norm"),
        EVERY,
        (1 / 4, 1 / 16, 1 / 64, 1 / 256, 1 / 4096),
        _step,
    ),
    "start too small": Defect(
        ("signal by layer", "gradient by layer"), ("dense 4 hidden",), (0.5, 0.25, 0.12, 0.06, 0.03), _started
    ),
    "start too large": Defect(
        ("signal by layer", "gradient by layer", "confidence of the softmax", "largest stable step"),
        DENSE,
        (2, 4, 8, 16, 64),
        _started,
    ),
    "inputs not scaled": Defect(("scale of the inputs",), ALL, (4, 16, 64, 256, 1024), _inputs),
    "dead units": Defect(("dead units",), DENSE[:3], (0.2, 0.4, 0.6, 0.8, 1.0), _dead),
    "wrong labels": Defect(
        ("labels against shuffled ones", "labels most likely wrong", *GAPS), TOLD, (0.05, 0.1, 0.2, 0.4, 1.0), _wrong
    ),
    "wrong test labels": Defect(GAPS, TOLD, (0.05, 0.1, 0.2, 0.4, 1.0), _shuffled),
    "leaked column": Defect(
        ("what the best column alone leaves open", "shortcut"),
        ("dense 1 hidden", "dense 2 hidden"),
        (0.2, 0.4, 0.6, 0.8, 1.0),
        _leaked,
    ),
    "test rows in training": Defect(
        ("test examples found in the training data",), TOLD, (0.02, 0.05, 0.1, 0.2, 0.5), _copied
    ),
    "logits too large": Defect(("calibration error",), TOLD, (1.5, 2, 3, 5, 10), after=_sharpened),
    "constant": Defect(
        # such a network is not the end of its training either, which is said where that was sure to get there
        ("most frequent answer", "variation of the outputs", "chance to halve the loss of a blind guess"),
        EVERY, (0.5, 0.8, 0.9, 0.95, 1.0), after=_faded
    ),
    "sees the future": Defect(
        ("outputs that move with later tokens",), LANGUAGE, (1e-4, 1e-3, 1e-2, 0.1, 1.0), _ahead
    ),
    "no positions": Defect(("order of the tokens",), LANGUAGE, (0.5, 0.8, 0.95, 0.99, 1.0), _nowhere),
    "a token never shown": Defect(
        ("tokens that training never showed",), LANGUAGE, (0.5, 0.9, 0.99, 0.999, 1.0), _unshown
    ),
    "stale statistics": Defect(("stored batch statistics",), ("residual",), (1.1, 1.3, 1.6, 2.0, 4.0)),
}  # fmt: skip


def stale(statistics, strength: float):
    """Means and variances of data that were so many times as large."""
    return jax.tree.map(lambda a: a * strength, statistics)
