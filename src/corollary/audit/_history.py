"""Numbers along a training in bounded memory: when the room is full, neighbours are averaged."""

import numpy as np

ROOM = 512


class Thinned:
    """Steps and values of one quantity, at most `ROOM` points; every point is the mean of equally many values."""

    def __init__(self, room: int = ROOM):
        self._points = np.zeros((room, 2))
        self._used, self._stride = 0, 1
        self._sum, self._count = 0.0, 0

    def add(self, step: int, value: float) -> None:
        """One more value, if it is a number."""
        if not np.isfinite(value):
            return
        self._sum, self._count = self._sum + value, self._count + 1
        if self._count < self._stride:
            return
        if self._used == len(self._points):
            half = self._used // 2
            self._points[:half] = self._points[: 2 * half].reshape(half, 2, 2).mean(1)
            self._used, self._stride = half, 2 * self._stride
            return  # what has been added up is half of the next point
        self._points[self._used] = step, self._sum / self._count
        self._used, self._sum, self._count = self._used + 1, 0.0, 0

    @property
    def points(self) -> np.ndarray:
        """Steps and means, in rows."""
        return self._points[: self._used].copy()


class Recent:
    """The last numbers of a row, at most `room` of them, and how many there were in all."""

    def __init__(self, room: int):
        self._values, self.total = np.zeros(room), 0

    def add(self, values: np.ndarray) -> None:
        room = len(self._values)
        for start in range(0, len(values), room):
            part = np.asarray(values[start : start + room], float)
            self._values = np.concatenate([self._values[len(part) :], part])
        self.total += len(values)

    def last(self, count: int | None = None) -> np.ndarray:
        """The newest ones, the oldest of them first."""
        there = min(self.total, len(self._values))
        count = there if count is None else min(count, there)
        return self._values[len(self._values) - count :]
