"""Time that a watch may take: every kind of look has its part of the share, and comes as often as that part can pay.

A look is paid by the training since the last one of its kind: it waits until its part of that time is what such a look
takes on average. One that was held up, by other work on the machine, raises this average a little instead of making the
next looks wait for all of it. What all looks took is held to the share as well, within a few hundredths of it; what no
part has paid is taken off all parts alike, or else nothing would be left for the looks that take longest. Time before
the first call, and time in which a device finishes a step, count as training. By how much a look makes the next step
longer counts as the look's: a compiled loop that is stopped and begun again, threads to be woken, caches to be filled.

Where all is computed on the CPU, time in which other programs had it is nobody's: looks are short and mostly
escape it, or meet all of it at once, so that by the clock on the wall their number would be a matter of luck.
"""

import math
import time
from collections.abc import Callable, Collection

# a stop of a compiled loop comes after at most so many steps
LONGEST = 1000
#: in seconds
WALL: Callable[[], float] = time.perf_counter
# looks before the training, for the time they take: so many, or until they took so many seconds together; how many
# looks of the training that counts for
TRIES, TRYING, COUNTS = 12, 0.1, 8
# what may be spent at most, in shares, and with urgent looks; of so many seconds the share is there from the start
MOST, URGENT, ADVANCE = 1.03, 1.15, 0.2
# of every part at least so much is left to it
LEAST = 0.1
# what is known of the time between two looks fades by this with each; before so many nothing is said, and of what took
# so many times as long as expected the rest was somebody else's
FADES, FEWEST, OTHERS = 0.995, 16, 3.0
# looks and steps in a row are told apart where the determinant is more than this of the product of the diagonal
TOLD = 0.01
# stretches of a compiled loop that show what a stop costs
TRIED = (1, 8)


class Working:
    """A clock that stands still while this process does not compute: CPU time, where that is less."""

    def __init__(self):
        self._time, self._last = 0.0, (WALL(), time.process_time())

    def __call__(self) -> float:
        last, self._last = self._last, (WALL(), time.process_time())
        self._time += min(now - then for now, then in zip(self._last, last, strict=True))
        return self._time


class Afterwards:
    """What a look costs the steps after it: least squares of the time up to the next look on one, and on the steps.

    The time of many steps varies more than that of one: weights are one over their number, without which a few long
    stretches would hide what a look costs. Two unknowns, solved by hand: this runs at every look, where NumPy would
    take longer than some of them.
    """

    def __init__(self):
        self._looks = self._both = self._steps = 0.0  # weighted sums of squares and products
        self._look_seconds = self._step_seconds = 0.0
        self._weight = self._square = 0.0  # of what the fit left over
        self._seen = 0

    def saw(self, looked: bool, steps: int, seconds: float) -> None:
        """So many steps took so long, after a look or not."""
        if steps < 1:
            return
        noise = 0.0
        if self._seen >= FEWEST:
            look, step = self._solved
            expected = look * looked + step * steps
            seconds = min(seconds, OTHERS * expected)
            noise, self._weight = (seconds - expected) ** 2 / steps, FADES * self._weight + 1
        self._square = FADES * self._square + noise
        self._looks = FADES * self._looks + looked / steps
        self._both = FADES * self._both + looked
        self._steps = FADES * self._steps + steps
        self._look_seconds = FADES * self._look_seconds + looked * seconds / steps
        self._step_seconds = FADES * self._step_seconds + seconds
        self._seen += 1

    @property
    def _determinant(self) -> float:
        return self._looks * self._steps - self._both**2

    @property
    def told(self) -> bool:
        """Whether looks and steps can be told apart."""
        return self._seen >= FEWEST and self._determinant > TOLD * self._looks * self._steps

    @property
    def _solved(self) -> tuple[float, float]:
        """Seconds of a look and of a step."""
        if not self.told:
            return 0.0, self._step_seconds / self._steps if self._steps else 0.0
        look = (self._steps * self._look_seconds - self._both * self._step_seconds) / self._determinant
        step = (self._looks * self._step_seconds - self._both * self._look_seconds) / self._determinant
        return max(look, 0.0), max(step, 0.0)

    @property
    def seconds(self) -> float:
        """Of a look, less half of its standard error: noise that is never negative is too large on average."""
        if not self.told or not self._weight:
            return 0.0
        error = math.sqrt(self._square / self._weight * self._steps / self._determinant)
        return max(0.0, self._solved[0] - error / 2)

    @property
    def trial(self) -> int:
        """A number of steps that differs from the last one."""
        return TRIED[self._seen % len(TRIED)]


class Spending:
    """`share` of the training time, divided among kinds of looks by `parts`; two are at least `apart` steps apart.

    `rests` are seconds of training that lie between two looks of a kind at least.
    """

    def __init__(
        self,
        share: float,
        parts: dict[str, float],
        apart: dict[str, int],
        now: Callable[[], float],
        rests: dict[str, float] | None = None,
    ):
        total = sum(parts.values())
        self.parts = {kind: share * part / total for kind, part in parts.items()}
        self._share, self._apart, self._rests = share, apart, rests or {}
        self.used = dict.fromkeys(parts, 0.0)
        self.taken = dict.fromkeys(parts, 0)
        self._looks = dict.fromkeys(parts, 0)
        self._tried = dict.fromkeys(parts, 2e-5)
        self._last: dict[str, int] = {}
        self._paid = dict.fromkeys(parts, 0.0)
        self.now = now
        self._began: float | None = None
        self._first_step, self._left = 0, 1.0
        self._watching = self._entered = self._waited = 0.0
        self._ahead: list[tuple[float, int]] = []  # of each kind, the training time and the step before it cannot come
        self._after, self._went, self._stop = Afterwards(), (0, 0.0), 0.0
        self._looked: str | None = None  # the first kind of this visit, which pays for what comes after it

    def expect(self, kind: str, look: Callable) -> None:
        """Try a look to see what it takes, at its best: other work on the machine makes some of the tries longer."""
        took: list[float] = []
        while len(took) < TRIES and sum(took) < TRYING:
            began = self.now()
            look()
            took.append(self.now() - began)
        self._tried[kind] = min(took)

    def expect_stops(self, nothing: Callable) -> None:
        """Try what it takes to stop a loop, once more than to compile it."""
        nothing()
        self.expect("", nothing)
        self._stop = self._tried.pop("")

    def expected(self, kind: str) -> float:
        """The seconds that a look of this kind takes on average."""
        return (COUNTS * self._tried[kind] + self.used[kind]) / (COUNTS + self._looks[kind])

    def _when(self, kind: str) -> float:
        """The training time at which the next look of this kind is paid for and has room."""
        rest = max(self.expected(kind) / (self.parts[kind] * self._left), self._rests.get(kind, 0.0))
        return max(self._paid[kind] + rest, self._room(kind))

    def _first(self, kind: str) -> int:
        """The step before which no look of this kind comes."""
        return self._last[kind] + self._apart[kind] if kind in self._last else 0

    def _divide(self) -> None:
        """How much of every part is left beside what no part has paid, and what is spent beyond the share."""
        share = self._share * (self.training + ADVANCE / 2)
        own = sum(min(self.used[kind], part * self.training) for kind, part in self.parts.items())
        self._left = min(max(1 - (self._watching - own + max(self._watching - share, 0)) / share, LEAST), 1.0)

    def arrive(self, step: int) -> None:
        self._entered, self._waited = self.now(), 0.0
        if self._began is None:
            self._began, self._first_step = self._entered, step
        else:
            before, since = self._went
            self._after.saw(self._looked is not None, step - before, self._entered - since)
        self._looked, self._went = None, (step, 0.0)

    def leave(self, stopped: bool = False, urgent: Collection[str] = ()) -> None:
        """Until some look can be paid for nothing is to be done but to count; `stopped` says that a loop was."""
        left = self.now()
        self._watching += left - self._entered - self._waited
        self._looked, self._went = self._looked or ("losses" if stopped else None), (self._went[0], left)
        if self._looked is not None:
            after = max(self._after.seconds, self._stop)
            self.used[self._looked] += after
            self._watching += after
        self._divide()
        self._ahead = [
            (self._room(k, URGENT), 0) if k in urgent else (self._when(k), self._first(k)) for k in self.parts
        ]

    def nothing_due(self, step: int) -> bool:
        """Whether it is too early for any look; cheap, because it is asked at every step."""
        if self._began is None:
            return False
        training = self.now() - self._began - self._watching
        return all(training < when or step < first for when, first in self._ahead)

    def wait(self, ready: Callable) -> None:
        """What the training has begun is its own time."""
        began = self.now()
        ready()
        self._waited += self.now() - began

    def spend(self, kind: str, step: int | None, look: Callable) -> None:
        """Look; without a `step` as the second half of a look. A look that returns a number saw that many things."""
        began, waited = self.now(), self._waited
        found = look()
        self.used[kind] += self.now() - began - (self._waited - waited)
        # losses are there to be read
        self._looked = self._looked or (kind if kind != "losses" else None)
        if step is not None:
            self._last[kind], self._paid[kind] = step, self.training
            self._looks[kind] += 1
            self.taken[kind] += 1 if found is None else found

    @property
    def training(self) -> float:
        """The seconds of the training itself."""
        if self._began is None:
            return 0.0
        return max(self._entered - self._began - self._watching, 0.0)

    @property
    def watching(self) -> float:
        return self._watching

    @property
    def share_spent(self) -> float:
        return self._watching / self.training if self.training > 0 else 0.0

    def urgently(self, kind: str) -> bool:
        """Whether there is room for one such look at once, whoever pays for it."""
        return kind in self.parts and self._room(kind, URGENT) <= self.training

    def _room(self, kind: str, most: float = MOST) -> float:
        """The training time at which there is room for one such look."""
        return ((self._watching + self.expected(kind)) / self._share - ADVANCE) / most

    def due(self, kind: str, step: int) -> bool:
        return kind in self.parts and step >= self._first(kind) and self._when(kind) <= self.training

    def steps_until_due(self, step: int, urgent: Collection[str] = ()) -> int:
        """Steps until the next look can be paid for, as far as can be seen; the share alone holds up what is urgent."""
        done = step - 1 - self._first_step
        if done < 1 or self.training <= 0:
            return 1
        if not self._after.told:
            return self._after.trial
        each = self.training / done
        waits = [self._steps_until(kind, step, each, kind in urgent) for kind in self.parts if kind != "page"]
        return int(min(max(min(waits) + 1, 1), LONGEST))

    def _steps_until(self, kind: str, step: int, each: float, urgent: bool) -> float:
        """Steps, of so many seconds each, until a look of this kind can come."""
        if urgent:
            return (self._room(kind, URGENT) - self.training) / each
        return max((self._when(kind) - self.training) / each, self._first(kind) - step)
