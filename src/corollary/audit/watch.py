"""A training followed while it runs: what happens in it, a sentence when something goes wrong, for a share of its time.

    watching = watch(Subject(network, "cross_entropy", (x, y), (x_test, y_test), batch_size=64), share=0.05)
    nets.fit(network, "cross_entropy", (x, y), optax.adam(1e-3), steps=10_000, batch_size=64, key=key, watch=watching)

    for step, batch in enumerate(batches):                     # or a loop of one's own
        network, state, loss = update(network, state, batch)   # the loss before the step, the network after it
        watching(step, network, loss)

It only reads: a training ends with the same bits as without it.
"""

from __future__ import annotations

import itertools
import time
import warnings
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import ArrayLike, Float

from corollary._types import NetworkLike
from corollary._validate import real, whole, within
from corollary.audit import _looks, _spending
from corollary.audit._alarms import Alarm, Alarms
from corollary.audit._data import count
from corollary.audit._errors import SubjectError, sentences
from corollary.audit._history import Thinned
from corollary.audit._live import replaced
from corollary.audit._spending import Spending
from corollary.audit.subject import Subject

# what each kind of look may take of the share, and how many steps lie between two of them at least
PARTS = {"losses": 0.1, "step": 0.3, "batch": 0.15, "held": 0.25, "units": 0.1, "everything": 0.05, "page": 0.05}
APART = {"losses": 1, "step": 3, "batch": 8, "held": 20, "units": 20, "everything": 50, "page": 1}
# seconds of training between two pages
RESTS = {"page": 2.0}
# so many losses are read whatever it takes, and so many even if the device is not done with the last of them
WAITING, MOST_WAITING = 16, 64


class WatchWarning(UserWarning):
    """One sentence on what goes wrong in a training."""


def watch(subject: Subject, share: float = 0.05, *, report: str | PathLike | None = "watch.html") -> Watch:
    """Follow the training of the subject's network, which is where it begins, for at most this share of its time.

    What is looked at, and how often, depends on what it takes: every loss; the size of a step; the loss on a fresh
    batch; the loss on held-out examples (the subject's test data) and on as many of the training; dead units; and all
    at once, gradient, noise, curvature, `latest` has the names. Programs are compiled here, once: `preparation` is how
    long that took. `report` is an HTML file that is replaced every few seconds; None writes none.

    Warnings are sequential tests: of healthy trainings at most one in a hundred is warned, however long it is and
    however often it is looked at, under the premises of each test (docs/watch.md). `batch_size` of the subject makes
    the test for batches that repeat possible, its test data that for overfitting.
    """
    return Watch(subject, share, report=report)


class Watch:
    """What `watch` returns: called after every step, or handed to `nets.fit`.

    `latest` maps names to the newest numbers, for any logger; `alarms` are the warnings so far; `course(name)` has the
    steps and values of a quantity, thinned to a few hundred; `histograms` the newest ones of the gradient; `taken`
    counts the looks of each kind and `share_spent` is the share of the training time that they took.
    """

    def __init__(self, subject: Subject, share: float = 0.05, *, report: str | PathLike | None = "watch.html"):
        if not isinstance(subject, Subject):
            raise TypeError(f"subject must be a Subject, got {type(subject).__name__}.")
        with sentences():
            share = float(within("share", real("share", share, ""), 0.0, 1.0, open="both"))
        self.report = None if report is None else Path(report)
        if self.report is not None and not self.report.parent.is_dir():
            raise SubjectError(f"there is no folder {self.report.parent} for the report.")
        began = time.perf_counter()
        self.latest: dict[str, float] = {}
        self.histograms: dict[str, Any] = {}
        self._courses: dict[str, Thinned] = {}
        self._looks = _looks.looks(subject)
        self._start, self._origin = self._looks.arrays, np.zeros(0)
        self._rng, self._key = np.random.default_rng(0), jax.random.key(0)
        self._examples = count(subject.train)
        fixed = {s: count(subject.data(s)) for s in subject.splits}
        # of the training data few: they only say whether its loss still falls, which no test waits for
        most = {"train": _looks.SEEN, "test": _looks.HELD}
        self._fixed = {s: _looks.drawn(self._rng, n, most[s]) for s, n in fixed.items()}
        batches = subject.batch_size if subject.batch_size and subject.batch_size < subject.count() else None
        self._alarms = Alarms(batches)
        self._pending: list[tuple[int, Any]] = []
        self._pair: tuple[int, Any] | None = None
        self._full: tuple[int, Any] | None = None
        self.step = 0
        kinds = {k: p for k, p in PARTS.items() if not self._impossible(k, subject)}
        self._time = Spending(share, kinds, {k: APART[k] for k in kinds}, self._clock(), RESTS)
        self._prepare()
        self.preparation = time.perf_counter() - began

    def __call__(self, step: int, network: NetworkLike, loss: Float[ArrayLike, ""]) -> None:
        """After a step: its number, the network as it is now, and the loss that the step saw."""
        self._pending.append((whole("step", step, 0), loss))
        self._observe(step, lambda: self._looks.read(network))

    def after(self, step: int, network: NetworkLike, losses: Float[ArrayLike, "_"]) -> None:
        """After a stretch of steps of a compiled loop, of which `step` are done in all: the losses of the stretch."""
        values = np.asarray(losses, float)
        self._pending += [(step - len(values) + i, value) for i, value in enumerate(values)]
        self._observe(step - 1, lambda: self._looks.read(network), stopped=True)

    def stops(self, nothing: Callable) -> None:
        """Before the first stretch of a compiled loop: a stretch without a step, for the time it takes."""
        self._time.expect_stops(nothing)

    def pause(self, step: int) -> int:
        """After how many steps a compiled loop should stop for a look."""
        if self._pair is not None or self._full is not None:
            return 1
        return self._time.steps_until_due(step, self._alarms.urgent)

    @property
    def alarms(self) -> tuple[Alarm, ...]:
        return tuple(self._alarms.raised)

    @property
    def taken(self) -> dict[str, int]:
        return dict(self._time.taken)

    @property
    def share_spent(self) -> float:
        return self._time.share_spent

    @property
    def names(self) -> tuple[str, ...]:
        """The quantities that have a course."""
        return tuple(self._courses)

    def course(self, name: str) -> Float[np.ndarray, "_ 2"]:
        """Steps and values of a quantity, in rows."""
        if name not in self._courses:
            raise SubjectError(f"there is no course of {name!r} yet: {', '.join(self._courses) or 'nothing was seen'}.")
        return self._courses[name].points

    def save(self) -> None:
        """Write the report now, as at the end of a training; nothing if there is to be none."""
        self._time.taken["losses"] += self._read_losses()
        if self.report is not None:
            replaced(self.report, self)

    def __repr__(self) -> str:
        looks = ", ".join(f"{n} {k}" for k, n in self._time.taken.items())
        return f"<Watch at step {self.step}: {len(self.alarms)} warnings; looks: {looks}>"

    # --- what happens in a call

    def _observe(self, step: int, read: Callable, stopped: bool = False) -> None:
        clock = self._time
        self.step = step
        waits = self._pair is not None or self._full is not None
        # of a loop that was stopped anyway the losses are there
        if not (waits or stopped) and len(self._pending) < WAITING and clock.nothing_due(step):
            return
        clock.arrive(step)
        found: list = []

        def arrays():
            """Of the network as it is now; the time that its last step takes is the training's."""
            if not found:
                found.append(read())
                clock.wait(lambda: jax.block_until_ready(found[0]))
            return found[0]

        def due(kind):
            """In its turn, or because the losses ask for it, if the share has room."""
            return clock.due(kind, step) or (kind in self._alarms.urgent and clock.urgently(kind))

        if clock.due("losses", step) or len(self._pending) >= WAITING:
            clock.spend("losses", step, self._read_losses)
        if self._pair is not None or self._full is not None:
            self._second(step, arrays)
        elif due("step"):
            clock.spend("step", step, lambda: self._before(step, arrays))
        elif clock.due("everything", step):
            clock.spend("everything", step, lambda: self._all_before(step, arrays()))
        for kind, look in (("batch", self._batch), ("held", self._held), ("units", self._units)):
            if due(kind):
                clock.spend(kind, step, lambda look=look: look(step, arrays()))
        if clock.due("page", step):
            clock.spend("page", step, lambda: replaced(self.report, self))
        said = self._alarms.unsaid()
        clock.leave(stopped, self._alarms.urgent)
        for alarm in said:
            warnings.warn(WatchWarning(alarm.sentence), stacklevel=3)

    def _note(self, step: int, **numbers: float) -> None:
        self.latest |= {"step": step} | numbers
        for name, value in numbers.items():
            self._courses.setdefault(name, Thinned()).add(step, value)

    def _read_losses(self) -> int:
        ready = [*itertools.takewhile(lambda one: not hasattr(one[1], "is_ready") or one[1].is_ready(), self._pending)]
        if len(self._pending) >= MOST_WAITING:
            ready = self._pending
        self._pending = self._pending[len(ready) :]
        if ready:
            steps, values = [s for s, _ in ready], [float(v) for _, v in ready]
            course = self._courses.setdefault("loss", Thinned())
            for step, value in zip(steps, values, strict=True):
                course.add(step, value)
            self.latest |= {"step": steps[-1], "loss": values[-1]}
            self._alarms.losses(steps, np.array(values))
        return len(ready)

    # --- the looks

    def _before(self, step: int, arrays: Callable) -> None:
        """The network before a step that is to be measured: some of its parameters, or all."""
        self._pair = step, self._sampled(arrays)

    def _all_before(self, step: int, arrays) -> None:
        self._full = step, jax.block_until_ready(_looks.copied(arrays))

    def _sampled(self, arrays: Callable) -> np.ndarray:
        return _looks.sampled(self._looks, arrays())

    def _second(self, step: int, arrays) -> None:
        """And after it: the size of the step, or everything."""
        clock = self._time
        if self._pair is not None:
            (before, old), self._pair = self._pair, None
            if step == before + 1:
                clock.spend("step", None, lambda: self._update(step, old, arrays))
        else:
            (before, old), self._full = self._full, None
            if step == before + 1:
                clock.spend("everything", None, lambda: self._everything(step, old, arrays()))

    def _update(self, step: int, old: np.ndarray, arrays: Callable) -> None:
        new = self._sampled(arrays)
        size, far = (float(np.linalg.norm(new - a)) for a in (old, self._origin))
        self._note(step, update_size=size, distance_from_start=far)
        self._alarms.step(step, size)

    def _batch(self, step: int, arrays) -> None:
        rows = _looks.drawn(self._rng, self._examples, _looks.FRESH)
        values = np.asarray(_looks.losses(self._looks, arrays, self._looks.train, rows), float)
        self._note(step, fresh_loss=float(values.mean()))
        self._alarms.fresh(values, len(self._pending))

    def _held(self, step: int, arrays) -> None:
        found = {}
        for split, rows in self._fixed.items():
            data = self._looks.train if split == "train" else self._looks.test
            found[split] = np.asarray(_looks.losses(self._looks, arrays, data, rows), float)
        means = {split: float(a.mean()) for split, a in found.items()}
        self._note(step, training_loss=means["train"], held_out_loss=means["test"])
        self._alarms.held(step, means["train"], found["test"])

    def _units(self, step: int, arrays) -> None:
        def seen():
            rows = _looks.drawn(self._rng, self._examples, _looks.UNITS)
            found = jax.device_get(_looks.dead(self._looks, arrays, rows))
            return {name: tuple(map(float, a)) for name, a in found.items()}

        dead = seen()
        if self._alarms.doubtful(dead):  # on other examples some of them may live
            dead = {name: min(dead[name], other) for name, other in seen().items()}
        self._note(step, **{f"dead units, {name}": share for name, (share, _) in dead.items()})
        self._alarms.units(step, dead)

    def _everything(self, step: int, old, new) -> None:
        rows = _looks.drawn(self._rng, self._examples, self._looks.batch)
        self._key, key = jax.random.split(self._key)
        found = jax.device_get(_looks.everything(self._looks, new, old, rows, key))
        self.histograms = {name: np.asarray(a) for name, a in found.items() if "histogram" in name or "_end" in name}
        numbers = {name: float(a) for name, a in found.items() if name not in self.histograms and name != "loss"}
        self._note(step, batch_loss=float(found["loss"]), **numbers)

    # --- before the training

    def _impossible(self, kind: str, subject: Subject) -> bool:
        if kind == "held":
            return subject.test is None
        if kind == "units":
            rows = _looks.drawn(self._rng, self._examples, _looks.UNITS)
            try:
                return not jax.eval_shape(lambda a: _looks.dead(self._looks, a, rows), self._start)
            except ValueError:  # no layer, or a loop that has no gradient
                return True
        return kind == "page" and self.report is None

    def _clock(self) -> Callable[[], float]:
        """Time on the wall where a device computes, and that of the CPU otherwise."""
        return _spending.Working() if self._looks.on_host else _spending.WALL

    def _prepare(self) -> None:
        """Everything once, so that no program is compiled during the training, and once more for its time."""
        start = jax.block_until_ready(_looks.copied(self._start))
        self._origin = self._sampled(lambda: start)
        looks = {"step": lambda: self._update(0, self._origin, lambda: start), "batch": lambda: self._batch(0, start)}
        looks |= {"held": lambda: self._held(0, start), "units": lambda: self._units(0, start)}
        looks |= {"everything": lambda: self._everything(0, start, start), "page": lambda: replaced(self.report, self)}
        for kind in self._time.parts:
            if kind in looks:
                looks[kind]()
                self._time.expect(kind, looks[kind])
        self._alarms.begin()
        self._courses = {name: c for name, c in self._courses.items() if name.startswith(("dead", "held", "training"))}
        self.latest = {name: self.latest[name] for name in self._courses} | {"step": 0}
