r"""Sigma-algebras on a finite sample space, probability measures on them, and measurable functions.

Outcomes are numbered $0,\dots,n-1$. An event is a row of $n$ truth values, a family of events an array (m, n). How
many events there are depends on the values, so these functions work on NumPy arrays, outside `jit`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import ArrayLike, Bool, Float

from corollary._validate import concrete, real
from corollary.catalog import implements


@implements("B01.26")
def atoms(events: Bool[ArrayLike, "m n"] | Sequence[Sequence[bool]]) -> np.ndarray:
    """The number of the atom of each outcome: outcomes that no event of the family tells apart share an atom."""
    events = _family("events", events)
    _, first, atom = np.unique(events.T, axis=0, return_index=True, return_inverse=True)
    order = np.empty(first.size, int)
    order[np.argsort(first)] = np.arange(first.size)  # numbered as they appear
    return order[atom.reshape(-1)]


@implements("B01.26")
def generate_sigma_algebra(events: Bool[ArrayLike, "m n"] | Sequence[Sequence[bool]]) -> np.ndarray:
    r"""The smallest sigma-algebra that contains `events`: all unions of its $k$ atoms, $2^k$ events as rows."""
    atom = atoms(events)
    count = int(atom.max()) + 1
    if count > 20:
        raise ValueError(f"events must generate at most 20 atoms (a million events), got {count} atoms.")
    chosen = (np.arange(2**count)[:, None] >> np.arange(count)) & 1
    return chosen.astype(bool)[:, atom]


@implements("B01.26")
def is_sigma_algebra(events: Bool[ArrayLike, "m n"] | Sequence[Sequence[bool]]) -> bool:
    r"""Whether the family holds the empty and the full set, and with its events their complements and unions.

    Every event is a union of the $k$ atoms of the family, so it is closed exactly if it has $2^k$ different events.
    """
    different = np.unique(_family("events", events), axis=0)
    return different.shape[0] == 2 ** (int(atoms(different).max()) + 1)


class Measurability(NamedTuple):
    """Whether a function is measurable; if not, one of its values whose set of outcomes is not an event."""

    measurable: bool
    witness: float | None


@implements("B01.27")
def is_measurable(
    values: Float[ArrayLike, "n"], generators: Bool[ArrayLike, "m n"] | Sequence[Sequence[bool]]
) -> Measurability:
    r"""Whether $\{\omega:X(\omega)\in B\}$ is in the sigma-algebra that `generators` (m, n) generate, for every $B$.

    It is if $X$ is constant on every atom: then each of these sets is a union of atoms. The sigma-algebra itself
    is not listed, so that all subsets of a large space (`np.eye(n)` generates them) are no trouble.
    """
    values, atom = np.asarray(real("values", values, "n"), float), atoms(generators)
    if values.size != atom.size:
        raise ValueError(f"values must hold one number for each of {atom.size} outcomes, got {values.size}.")
    low, high = np.full(atom.max() + 1, np.inf), np.full(atom.max() + 1, -np.inf)
    np.minimum.at(low, atom, values)
    np.maximum.at(high, atom, values)
    split = low < high
    return Measurability(not split.any(), float(low[np.argmax(split)]) if split.any() else None)


@implements("B01.26")
class ProbabilitySpace:
    r"""$(\Omega,\mathcal F,\Pr)$: a sigma-algebra, and a probability for each of its events, checked to be additive."""

    def __init__(self, events: Bool[ArrayLike, "m n"] | Sequence[Sequence[bool]], probabilities: Float[ArrayLike, "_"]):
        events, p = _family("events", events), np.asarray(real("probabilities", probabilities, "m"), float)
        if not is_sigma_algebra(events):
            raise ValueError("events must be a sigma-algebra; generate_sigma_algebra makes one.")
        if p.size != events.shape[0]:
            raise ValueError(f"probabilities must hold one number for each of {events.shape[0]} events, got {p.size}.")
        if (p < 0).any():
            raise ValueError(f"probabilities must not be negative, got {p.min():g}.")
        atom = atoms(events)
        of_atoms = p[_rows(np.eye(atom.max() + 1, dtype=bool)[:, atom], events)]
        # an event is the union of the atoms whose first outcome it contains
        sums = events[:, np.unique(atom, return_index=True)[1]] @ of_atoms
        if abs(of_atoms.sum() - 1) > 1e-6:
            raise ValueError(f"probabilities must give the whole space 1, got {of_atoms.sum():g}.")
        if (wrong := np.abs(sums - p) > 1e-6).any():
            at = int(np.argmax(wrong))
            raise ValueError(f"probabilities must be additive: event {at} has {p[at]:g}, its atoms have {sums[at]:g}.")
        self.events, self.probabilities = events, p

    @classmethod
    def of_weights(
        cls, weights: Float[ArrayLike, "n"], generators: Bool[ArrayLike, "m _"] | Sequence[Sequence[bool]] | None = None
    ) -> "ProbabilitySpace":
        """The space with these probabilities of the outcomes; with all subsets as events unless told otherwise."""
        weights = np.asarray(real("weights", weights, "n"), float)
        events = generate_sigma_algebra(np.eye(weights.size, dtype=bool) if generators is None else generators)
        if events.shape[1] != weights.size:
            raise ValueError(f"generators must have {weights.size} truth values per row, got {events.shape[1]}.")
        return cls(events, events @ weights)

    def probability(self, event: Bool[ArrayLike, "n"] | Sequence[bool]) -> float:
        """The probability of an event, given as n truth values; a set that is not an event is refused."""
        event = _family("event", np.asarray(event)[None])
        if event.shape[1] != self.events.shape[1]:
            raise ValueError(f"event must have {self.events.shape[1]} truth values, got {event.shape[1]}.")
        return float(self.probabilities[_rows(event, self.events)[0]])


def _rows(wanted, events):
    """For each row of `wanted` the row of `events` that equals it."""
    _, number = np.unique(np.concatenate([events, wanted]), axis=0, return_inverse=True)
    known, asked = np.split(number.reshape(-1), [events.shape[0]])
    place = np.full(number.max() + 1, -1)
    place[known] = np.arange(known.size)
    if (place[asked] < 0).any():
        raise ValueError("event must be one of the events of the sigma-algebra.")
    return place[asked]


def _family(name, events) -> np.ndarray:
    if not concrete(events):
        raise TypeError(f"{name} must not be traced by jit: the number of events depends on its values.")
    events = np.asarray(events)
    if events.ndim != 2 or events.size == 0:
        raise ValueError(f"{name} must be rows of truth values, one for each outcome, got shape {events.shape}.")
    if (other := ~np.isin(events, (0, 1))).any():
        raise ValueError(f"{name} must hold truth values, got {events[other][0]}.")
    return events.astype(bool)
