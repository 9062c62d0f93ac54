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

import time
from collections.abc import Callable, Collection

import numpy as np

# a stop of a compiled loop comes after at most so many steps
LONGEST = 1000
#: in seconds
WALL: Callable[[], float] = time.perf_counter
# looks before the training, for the time they take; how many looks of the training that counts for
TRIES, COUNTS = 3, 8
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
    """What a look costs the steps after it: least squares of the time up to the next look on one, and on the steps."""

    def __init__(self):
        self._squares, self._products, self._noise, self._seen = np.zeros((2, 2)), np.zeros(2), np.zeros(2), 0

    def saw(self, looked: bool, steps: int, seconds: float) -> None:
        """So many steps took so long, after a look or not."""
        row = np.array([float(looked), float(steps)])
        if self._seen >= FEWEST:
            expected = float(row @ self._solved)
            seconds = min(seconds, OTHERS * expected)
            self._noise = FADES * self._noise + np.array([1.0, (seconds - expected) ** 2])
        self._squares = FADES * self._squares + np.outer(row, row)
        self._products = FADES * self._products + seconds * row
        self._seen += 1

    @property
    def told(self) -> bool:
        """Whether looks and steps can be told apart."""
        (looks, both), (_, steps) = self._squares
        return self._seen >= FEWEST and looks * steps - both**2 > TOLD * looks * steps

    @property
    def _solved(self) -> np.ndarray:
        """Seconds of a look and of a step."""
        if not self.told:
            return np.array([0.0, self._products[1] / self._squares[1, 1]])
        return np.maximum(np.linalg.solve(self._squares, self._products), 0.0)

    @property
    def seconds(self) -> float:
        """Of a look, less half of its standard error: noise that is never negative is too large on average."""
        if not self.told or not self._noise[0]:
            return 0.0
        error = np.sqrt(self._noise[1] / self._noise[0] * np.linalg.inv(self._squares)[0, 0])
        return max(0.0, float(self._solved[0] - error / 2))

    @property
    def trial(self) -> int:
        """A number of steps that differs from the last one."""
        return TRIED[self._seen % len(TRIED)]


class Spending:
    """`share` of the training time, divided among kinds of looks by `parts`; two are at least `apart` steps apart."""

    def __init__(self, share: float, parts: dict[str, float], apart: dict[str, int], now: Callable[[], float]):
        total = sum(parts.values())
        self.parts = {kind: share * part / total for kind, part in parts.items()}
        self._share, self._apart = share, apart
        self.used = dict.fromkeys(parts, 0.0)
        self.taken = dict.fromkeys(parts, 0)
        self._looks = dict.fromkeys(parts, 0)
        self._tried = dict.fromkeys(parts, 2e-5)
        self._last: dict[str, int] = {}
        self._paid = dict.fromkeys(parts, 0.0)
        self.now = now
        self._began: float | None = None
        self._first_step, self._left = 0, 1.0
        self._watching = self._entered = self._waited = self._earliest = 0.0
        self._after, self._went, self._stop = Afterwards(), (0, 0.0), 0.0
        self._looked: str | None = None  # the first kind of this visit, which pays for what comes after it

    def expect(self, kind: str, look: Callable) -> None:
        """Try a look to see what it takes, at its best."""
        took = []
        for _ in range(TRIES):
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
        """The training time at which the next look of this kind is paid for."""
        return self._paid[kind] + self.expected(kind) / (self.parts[kind] * self._left)

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

    def leave(self, stopped: bool = False) -> None:
        """Until some look can be paid for nothing is to be done but to count; `stopped` says that a loop was."""
        left = self.now()
        self._watching += left - self._entered - self._waited
        self._looked, self._went = self._looked or ("losses" if stopped else None), (self._went[0], left)
        if self._looked is not None:
            after = max(self._after.seconds, self._stop)
            self.used[self._looked] += after
            self._watching += after
        self._divide()
        self._earliest = min(map(self._when, self.parts))

    @property
    def nothing_due(self) -> bool:
        """Whether it is too early for any look; cheap, because it is asked at every step."""
        return self._began is not None and self.now() - self._began - self._watching < self._earliest

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

    def within(self, kind: str, most: float = MOST) -> bool:
        """Whether so many shares have room for one such look, whoever pays for it."""
        return self._room(kind, most) <= self.training

    def _room(self, kind: str, most: float = MOST) -> float:
        """The training time at which there is room for one such look."""
        return ((self._watching + self.expected(kind)) / self._share - ADVANCE) / most

    def due(self, kind: str, step: int) -> bool:
        if kind not in self.parts or step < self._last.get(kind, -(10**9)) + self._apart[kind]:
            return False
        return self._when(kind) <= self.training and self.within(kind)

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
        paid = (max(self._when(kind), self._room(kind)) - self.training) / each
        return max(paid, self._last.get(kind, step) + self._apart[kind] - step)
