"""What goes wrong in a training, from the numbers of a watch: one sentence each, with tests that may look often.

The chance of a false alarm, one in a hundred, is divided among the tests, and spent over their looks by `_sequential`.
"""

import math
from typing import NamedTuple

import numpy as np

from corollary.audit import _sequential
from corollary.audit._history import Recent
from corollary.audit.finding import short
from corollary.audit.sections._units import DEAD_LOOK

#: chances of a false alarm over a whole training; dead units are counted, and numbers that are not finite are seen
DELTA = {"step": 0.002, "explosion": 0.002, "batch": 0.002, "noise": 0.002, "overfitting": 0.002}
# a step, or a loss, that grew by less than this at once, a held-out loss that rose by less, are no matter; what is left
# of the noise in the losses when batches repeat is less than this
GREW, ROSE, LEFT, EXPLODED = 4.0, 1.03, 0.1, 4.0
# stands for a loss that is not finite
HUGE = 1e30
# losses in one window; windows, or sizes of steps, that are known before anything is compared with them, and at most:
# sizes follow the schedule and the gradient down over orders of magnitude, so that only the last ones say what is usual
WINDOW, KNOWN, MOST, SIZES = 16, 6, 40, 16
# how much logarithms of sizes of steps usually scatter; of the variance of 16 normal numbers, by second differences
SCATTER = {"step": 0.25, "explosion": 0.3, "noise": 0.5}
# the share of a layer that has died since the start at least, beside `DEAD_LOOK` of it
DIED = 0.125
# fewer dead units than this are no matter in a small layer
FEW = 4
# a first loss that is less likely than this under the subject's loss is another loss
OTHER = 1e-6


class Alarm(NamedTuple):
    """What went wrong, when it was seen, and the sentence."""

    name: str
    step: int
    sentence: str


class Alarms:
    """The tests of one training and what they remember, all of it bounded."""

    def __init__(self, batch_size: int | None):
        self.batch_size = batch_size
        self.raised: list[Alarm] = []
        self.comparable: bool | None = None
        self.urgent: set[str] = set()  # looks that should come at once
        self._said = 0
        self._looks = dict.fromkeys(DELTA, 0)
        self._losses = Recent(WINDOW * (MOST + 1))
        self._sizes = Recent(SIZES)
        self._fresh: tuple[int, np.ndarray] | None = None
        self._variance: float | None = None
        self._best: tuple[int, float, np.ndarray] | None = None
        self._dead: dict[str, tuple[float, float]] = {}
        self._tested = 0

    def begin(self) -> None:
        """Forget what the preparation measured, but for the dead units and losses of the start."""
        self._sizes = Recent(SIZES)
        self._looks = dict.fromkeys(DELTA, 0)

    def unsaid(self) -> list[Alarm]:
        """What was raised since the last call."""
        found, self._said = self.raised[self._said :], len(self.raised)
        return found

    def _raise(self, name: str, step: int, sentence: str) -> None:
        if all(alarm.name != name for alarm in self.raised):
            self.raised.append(Alarm(name, step, f"Step {step}: {sentence}"))

    def _allowed(self, test: str) -> float:
        self._looks[test] += 1
        return _sequential.spent(DELTA[test], self._looks[test])

    # --- every loss

    def losses(self, steps: list[int], values: np.ndarray) -> None:
        known = self._losses.last(2 * WINDOW)
        finite, grown = np.isfinite(values), np.minimum(values[~np.isnan(values)], HUGE)
        if len(known) == 2 * WINDOW and len(grown):
            self._explodes(steps, grown, known)
        if not finite.all():
            step = steps[int(np.argmin(finite))]
            self._raise("loss", step, "the loss is not finite; a smaller learning rate may help.")
            values = values[finite]
        self._losses.add(values)
        self._compare(steps[-1])
        if self._losses.total - self._tested >= WINDOW // 2:
            self._tested = self._losses.total
            self._noise(steps[-1])
            self._doubt()

    def _explodes(self, steps: list[int], values: np.ndarray, known: np.ndarray) -> None:
        """A loss that leaves the range of the last ones; what explodes within a few steps needs no other look."""
        if known.min() <= 0:  # a loss that can be negative has no scale
            return
        if values.max() > known.max():  # of a healthy training a loss in 33 is
            self.urgent.add("step")
        third = np.sort(values)[-min(len(values), 3) :][:1]  # of those that were read together
        if third[0] > 0 and _sequential.jumped(known, third, EXPLODED, SCATTER["explosion"]) < self._allowed(
            "explosion"
        ):
            last = "infinity" if values.max() >= HUGE else short(float(values.max()))
            self._raise(
                "step",
                steps[-1],
                f"the loss went from {short(float(np.median(known)))} to {last}: the step has become too long for the "
                "curvature. Go back to before, with a smaller learning rate.",
            )

    def _noise(self, step: int) -> None:
        """Batches that repeat: the noise of the losses is gone all at once."""
        kept = self._losses.last()
        count = len(kept) // WINDOW
        if count <= KNOWN:
            return
        windows = kept[len(kept) - count * WINDOW :].reshape(count, WINDOW)
        rough = np.maximum(_sequential.roughness(windows), np.finfo(float).tiny)
        before, now = rough[:-1], rough[-1:]
        # a window in which batches change from many to one belongs to neither
        if _sequential.jumped(before[:-1], now, LEFT, SCATTER["noise"]) < self._allowed("noise"):
            self._repeats(step, math.sqrt(now[0]), math.sqrt(float(np.median(before))))

    def _repeats(self, step: int, now: float, usual: float) -> None:
        self._raise(
            "batch",
            step,
            f"the last {WINDOW} batches look like one and the same: their losses scatter by {short(now)}, those of "
            f"batches drawn at random by {short(usual)}. Look at what loads and shuffles the data.",
        )

    # --- the loss on a fresh batch, at the network that the next loss is of

    def fresh(self, values: np.ndarray, waiting: int) -> None:
        """Losses of fresh examples; `waiting` losses of steps before have not been read yet."""
        if self.batch_size is not None:
            self._fresh = self._losses.total + waiting, values
            # without the largest tenth: an example that is hard and rare is in the sample, or in the batches, by chance
            self._variance = float(np.sort(values)[: -(len(values) // 10) or None].var(ddof=1)) / self.batch_size
        self.urgent.discard("batch")

    def _doubt(self) -> None:
        """Losses that scatter too little for the last fresh batch that was looked at ask for another one."""
        recent = self._losses.last(WINDOW)
        if not self.comparable or self._fresh is not None or len(recent) < WINDOW:
            return
        if _sequential.roughness(recent) < LEFT * self._variance:
            self.urgent.add("batch")

    def _compare(self, step: int) -> None:
        """Batches that repeat: their losses scatter far less than those of fresh batches must."""
        if self._fresh is None or self._losses.total <= self._fresh[0]:
            return
        (place, sample), self._fresh = self._fresh, None
        kept = self._losses.last()
        after = self._losses.total - place  # losses since the look, the first of them belongs to it
        if after > len(kept):
            return
        value = kept[len(kept) - after]
        low = _sequential.too_low(value, self.batch_size, sample)
        if self.comparable is None:
            self.comparable = OTHER < low < 1 - OTHER
        recent = kept[: len(kept) - after + 1][-WINDOW:]
        if not self.comparable or len(recent) < WINDOW:
            return
        if _sequential.too_smooth(recent, LEFT * self._variance) < self._allowed("batch"):
            self._repeats(step, math.sqrt(_sequential.roughness(recent)), math.sqrt(self._variance))

    # --- the size of a step

    def step(self, step: int, size: float) -> None:
        self._sizes.add(np.array([max(size, np.finfo(float).tiny)]))
        sizes = self._sizes.last()
        self.urgent.discard("step")
        if len(sizes) < KNOWN + 2 or not np.isfinite(sizes).all():
            return
        before, now = sizes[:-2], sizes[-2:]
        factor = float(np.exp(np.log(now).mean() - np.log(before).mean()))
        if _sequential.jumped(before, now, GREW, SCATTER["step"]) < self._allowed("step"):
            losses = self._losses.last(2 * WINDOW)
            then, last = float(np.mean(losses[: -WINDOW // 2])), float(np.mean(losses[-4:]))
            self._raise(
                "step",
                step,
                f"the step grew {short(factor)}-fold at once, and the loss went from {short(then)} to {short(last)}. "
                f"Unless this was meant, divide the learning rate by {short(factor)} and go back.",
            )
        # the first of two: the second at once
        if now[-1] > GREW * before.max() >= now[-2]:
            self.urgent.add("step")

    # --- held-out data

    def held(self, step: int, training: float, values: np.ndarray) -> None:
        mean = float(values.mean())
        if not np.isfinite(mean):
            return
        if self._best is None or mean < float(self._best[2].mean()):
            self._best = step, training, values
            self._looks["overfitting"] += 1
            return
        best_step, best_training, best = self._best
        allowed = self._allowed("overfitting") / self._looks["overfitting"]  # the best of so many looks
        if training < best_training and _sequential.risen(best, values, ROSE) < allowed:
            low = float(best.mean())
            self._raise(
                "overfitting",
                step,
                f"the loss on held-out examples is {short(mean)}, {short(100 * (mean / low - 1))} % above its least at "
                f"step {best_step}, while that on training examples fell from {short(best_training)} to "
                f"{short(training)}. Stop, and take the network of step {best_step}.",
            )

    # --- units

    def doubtful(self, dead: dict[str, tuple[float, float]]) -> str | None:
        """The layer in which too many units have died, if there is one."""
        bad = [
            name
            for name, (share, count) in dead.items()
            if self._dead and count >= FEW and share >= max(DEAD_LOOK, self._dead[name][0] + DIED)
        ]
        return max(bad, key=dead.__getitem__, default=None)

    def units(self, step: int, dead: dict[str, tuple[float, float]]) -> None:
        """The dead units of each layer: their share of it, and their number."""
        if not self._dead:
            self._dead = dead
        name = self.doubtful(dead)
        if name is not None:
            now, then = (short(100 * a[name][0]) for a in (dead, self._dead))
            self._raise(
                "units",
                step,
                f"{now} % of the units of {name} give zero on every example, at the start it was {then} %. They learn "
                "nothing more; a shorter step keeps the rest alive.",
            )
