r"""A sampler under audit, the data it was trained on, and what it says about its likelihood.

    def make_sampler():
        return Sampler(generator.sample, x, x_test, log_prob=generator.log_prob)

`corollary audit my_file.py:make_sampler` reports whether it cheats.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
from jaxtyping import ArrayLike, Float, Int

from corollary._text import first_line
from corollary._validate import labels as checked_labels
from corollary._validate import real
from corollary.audit._errors import SubjectError, sentences
from corollary.audit._kinds import Special

#: examples that there must be of either set, and that a sampler is tried out with
LEAST, FEW = 32, 4


class Sampler(Special):
    r"""A function that makes examples, and the examples it is to be held against, checked.

    `sample(count, key=key)` returns `count` examples along the first axis; `train` are the examples it was trained on
    and `test` others of the same law, or pairs `(x, y)` with class labels. `log_prob(x)` is what it says about one
    example, if it says anything. One sentence in a `SubjectError` says what does not fit.
    """

    sections = ("cheating",)

    def __init__(
        self,
        sample: Callable,
        train: Float[ArrayLike, "n ..."] | tuple,
        test: Float[ArrayLike, "m ..."] | tuple,
        *,
        log_prob: Callable[[Any], Any] | None = None,
    ):
        with sentences():
            for name, function in (("sample", sample), ("log_prob", log_prob)):
                if not callable(function) and not (name == "log_prob" and function is None):
                    raise SubjectError(f"{name} must be a function, got {type(function).__name__}.")
            self.sample, self.log_prob = sample, log_prob
            self.train, self.labels = _taken_apart("train", train)
            self.test, _ = _taken_apart("test", test)
            if self.test.shape[1:] != self.train.shape[1:]:
                raise SubjectError(
                    f"test must hold examples of shape {self.train.shape[1:]} as train does, got {self.test.shape[1:]}."
                )
            self._try_out()

    def _try_out(self):
        key = jax.random.key(0)
        try:
            made = self.sample(FEW, key=key)
        except Exception as error:
            raise SubjectError(f"sample({FEW}, key=key) failed: {first_line(error)}.") from error
        made = real("what sample returns", made)
        if made.shape != (FEW, *self.train.shape[1:]):
            want = (FEW, *self.train.shape[1:])
            raise SubjectError(f"sample({FEW}, key=key) must return examples of shape {want}, got {made.shape}.")
        if self.log_prob is None:
            return
        try:
            said = jax.vmap(self.log_prob)(self.test[:FEW])
        except Exception as error:
            raise SubjectError(f"log_prob(x) failed on a test example: {first_line(error)}.") from error
        if getattr(said, "shape", None) != (FEW,):
            raise SubjectError("log_prob(x) must return one number for one example.")

    @property
    def examples(self) -> tuple[Float[ArrayLike, "n ..."], Int[ArrayLike, "n"]] | Float[ArrayLike, "n ..."]:
        """The training examples, with their labels where they have them."""
        return self.train if self.labels is None else (self.train, self.labels)

    def summary(self) -> dict[str, Any]:
        """What stands at the top of a report."""
        shape, classes = self.train.shape[1:], None if self.labels is None else int(self.labels.max()) + 1
        facts = [
            (" × ".join(map(str, shape)) or "1", "numbers in an example"),
            (f"{len(self.train):,}", f"training examples {f'of {classes} classes' if classes else 'without labels'}"),
            (f"{len(self.test):,}", "test examples"),
            ("A" if self.log_prob else "No", "likelihood was given"),
        ]
        numbers = {"shape": list(shape), "classes": classes, "log_prob": self.log_prob is not None}
        return numbers | {"facts": facts, "notes": list(self.notes), "left_out": None}


def _taken_apart(split: str, data):
    """Examples, and labels or None."""
    x, y = data if isinstance(data, tuple | list) and len(data) == 2 else (data, None)
    x = real(split, x)
    if x.ndim == 0 or len(x) < LEAST:
        raise SubjectError(f"{split} must hold {LEAST} examples at least, got shape {x.shape}.")
    if y is None:
        return x, None
    y = checked_labels(f"the labels of {split}", y, None)
    if len(y) != len(x):
        raise SubjectError(f"{split} must have one label for each of its {len(x)} examples, got {len(y)}.")
    return x, y
