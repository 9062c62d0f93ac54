"""Time that a watch may take: every kind of look has its part of the share, and waits until that part has paid for it.

What a look is expected to take is what it took on average; what it takes more is paid off before the next. Time before
the first call, and time in which a device finishes a step, count as training.
"""

import time
from collections.abc import Callable

# a stop of a compiled loop comes after at most so many steps
LONGEST = 1000
#: in seconds
CLOCK: Callable[[], float] = time.perf_counter
# looks before the training, for the time they take
TRIES = 2


class Spending:
    """`share` of the training time, divided among kinds of looks by `parts`; two are at least `apart` steps apart."""

    def __init__(self, share: float, parts: dict[str, float], apart: dict[str, int]):
        total = sum(parts.values())
        self.parts = {kind: share * part / total for kind, part in parts.items()}
        self._apart = apart
        self.used = dict.fromkeys(parts, 0.0)
        self.taken = dict.fromkeys(parts, 0)
        self._expected = dict.fromkeys(parts, 2e-5)
        self._last: dict[str, int] = {}
        self.now = CLOCK
        self._began: float | None = None
        self._first_step = 0
        self._watching = self._entered = self._waited = self._earliest = 0.0

    def expect(self, kind: str, look: Callable) -> None:
        """Try a look to see what it takes, at its best."""
        took = []
        for _ in range(TRIES):
            began = self.now()
            look()
            took.append(self.now() - began)
        self._expected[kind] = min(took)

    def arrive(self, step: int) -> None:
        self._entered, self._waited = self.now(), 0.0
        if self._began is None:
            self._began, self._first_step = self._entered, step

    def leave(self) -> None:
        """Until some look can be paid for nothing is to be done but to count."""
        costs = {kind: (self.used[kind] + self._expected[kind]) / part for kind, part in self.parts.items()}
        self._earliest = min(costs.values())
        self._watching += self.now() - self._entered - self._waited

    @property
    def nothing_due(self) -> bool:
        """Whether it is too early for any look; cheap, because it is asked at every step."""
        return self._began is not None and self.now() - self._began - self._watching < self._earliest

    def wait(self, ready: Callable) -> None:
        """What the training has begun is its own time."""
        began = self.now()
        ready()
        self._waited += self.now() - began

    def charge(self, kind: str, seconds: float) -> None:
        """Time that a look takes outside the watch."""
        self.used[kind] += seconds
        self._watching += seconds

    def spend(self, kind: str, step: int | None, look: Callable) -> None:
        """Look; without a `step` as the second half of a look. A look that returns a number is that many."""
        began, waited = self.now(), self._waited
        found = look()
        self.used[kind] += self.now() - began - (self._waited - waited)
        if step is not None:
            self._last[kind] = step
            self.taken[kind] += 1 if found is None else found
        self._expected[kind] = self.used[kind] / max(self.taken[kind], 1)

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

    def due(self, kind: str, step: int, count: int = 1) -> bool:
        if kind not in self.parts or step < self._last.get(kind, -(10**9)) + self._apart[kind]:
            return False
        return self.used[kind] + count * self._expected[kind] <= self.parts[kind] * self.training

    def steps_until_due(self, step: int) -> int:
        """Steps until the next look can be paid for, as far as can be seen."""
        done = step - 1 - self._first_step
        if done < 1 or self.training <= 0:
            return 1
        each = self.training / done
        waits = []
        for kind, part in self.parts.items():
            if kind == "page":
                continue
            wait = (self.used[kind] + self._expected[kind]) / part - self.training
            waits.append(max(wait / each, self._last.get(kind, step) + self._apart[kind] - step))
        return int(min(max(min(waits) + 1, 1), LONGEST))
