"""Finite sigma-algebras, probability measures on them, and the sum of two dice."""

import altair as alt
import jax
import numpy as np

from corollary.evidence import Size, at_least, claim, control, equal, picture
from corollary.foundations import (
    ProbabilitySpace,
    atoms,
    generate_sigma_algebra,
    is_measurable,
    is_sigma_algebra,
)


def _closure(events):
    """By the axioms alone: add complements and unions until nothing new comes. Events as numbers, a bit an outcome."""
    n = events.shape[1]
    everything = 2**n - 1
    family = np.unique(np.append(events @ 2 ** np.arange(n), [0, everything]))
    while True:
        more = np.unique(np.concatenate([family, everything - family, np.bitwise_or.outer(family, family).ravel()]))
        if more.size == family.size:
            return family
        family = more


@claim(rows=("B01.26",))
def generated(key, *, outcomes: Size = 6, families: Size = 60):
    r"""The sigma-algebra that some events generate has a power of two of events: all unions of its atoms.

    A sigma-algebra contains $\Omega$ and $\emptyset$ and is closed under complements and countable unions. On a finite
    space the atoms are the classes of outcomes that no generator tells apart; with $k$ atoms there are $2^k$ events.
    The trivial one has 2, all subsets of three outcomes 8, the partition $\{1,2\},\{3,4\}$ 4, one set 4. A probability
    measure is non-negative, gives $\Omega$ the probability 1 and is additive. $\{\emptyset,\{a\},X\}$ is not closed.
    """
    e_key, w_key = jax.random.split(key)
    random = np.asarray(jax.random.bernoulli(e_key, 0.4, (families, 3, outcomes)))
    sizes, direct, counts, same = [], [], [], []
    for events in random:  # sigma-algebras of different sizes do not batch
        made, closed = generate_sigma_algebra(events), _closure(events)
        sizes.append(len(made))
        direct.append(closed.size)
        counts.append(2 ** np.unique(atoms(events)).size)
        same.append(np.array_equal(np.sort(made @ 2 ** np.arange(outcomes)), closed))
    yield equal("events of the closure by the axioms", np.array(direct), np.array(counts), atol=0, rtol=0)
    yield equal("events generated from the atoms", np.array(sizes), np.array(counts), atol=0, rtol=0)
    yield equal("they are the same events", np.array(same), 1.0, atol=0)
    examples = {
        "trivial": np.ones((1, 4), int),
        "all subsets of three": np.eye(3, dtype=int),
        "a partition in two": np.array([[1, 1, 0, 0], [0, 0, 1, 1]]),
        "{a} and {b, c}": np.array([[1, 0, 0], [0, 1, 1]]),
        "one set": np.array([[1, 0, 1, 0, 0]]),
    }
    found = [len(generate_sigma_algebra(events)) for events in examples.values()]
    yield equal(", ".join(examples), np.array(found), np.array([2, 8, 4, 4, 4]), atol=0, rtol=0)
    weights = np.asarray(jax.random.exponential(w_key, (outcomes,)))
    weights = weights / weights.sum()
    space = ProbabilitySpace.of_weights(weights, random[0])
    p, events = space.probabilities, space.events
    disjoint = ~(events[:, None] & events[None]).any(-1)
    united = np.array([[space.probability(a | b) for b in events] for a in events])
    yield equal("probability of a disjoint union", united[disjoint], np.add.outer(p, p)[disjoint])
    yield equal("probability of the complement", np.array([space.probability(~a) for a in events]), 1 - p)
    yield at_least("probabilities", p, 0.0)
    broken = np.array([[0, 0, 0], [1, 0, 0], [1, 1, 1]])
    yield control("{∅, {a}, X} lacks a complement", equal("closed", is_sigma_algebra(broken), 1, atol=0))
    overlap = ~disjoint & (np.add.outer(p, p) > united + 1e-9)
    yield control(
        "events that overlap",
        equal("probability of the union", united[overlap], np.add.outer(p, p)[overlap]),
    )


@claim(rows=("B01.27",))
def two_dice(key):
    r"""The sum of two dice is a random variable for all subsets of outcomes, and not for the trivial sigma-algebra.

    $X$ is a random variable if $\{\omega:X(\omega)\in B\}$ is an event for every Borel set $B$. On $\{1,\dots,6\}^2$
    with all subsets as events the sum is one, with $\Pr(X=s)=(6-|s-7|)/36$. With only $\emptyset$ and $\Omega$ as
    events it is not, since $X^{-1}(\{2\})=\{(1,1)\}$ is no event; the only random variables are then the constants. The
    coarsest sigma-algebra for which the sum is one has $2^{11}$ events.
    """
    faces = np.arange(1, 7)
    total = np.add.outer(faces, faces).ravel()
    everything, nothing = np.eye(36, dtype=bool), np.ones((1, 36), bool)
    level_sets = total == np.arange(2, 13)[:, None]
    yield equal("measurable for all subsets", is_measurable(total, everything).measurable, 1, atol=0)
    mass = level_sets.mean(1)
    sums = np.arange(2, 13)
    yield equal("probability of each sum", mass, (6 - np.abs(sums - 7)) / 36, x=sums, along="sum")
    trivial = is_measurable(total, nothing)
    yield equal("trivial: the set of outcomes that is no event has the sum", trivial.witness, 2.0, atol=0)
    yield equal("its outcomes", np.flatnonzero(total == trivial.witness), 0, atol=0)
    yield equal("constants are measurable even then", is_measurable(0 * total, nothing).measurable, 1, atol=0)
    own = generate_sigma_algebra(level_sets)
    yield equal("events of the coarsest sigma-algebra", len(own), 2**11, atol=0, rtol=0)
    yield equal("measurable for it", is_measurable(total, level_sets).measurable, 1, atol=0)
    first = np.repeat(faces, 6)
    yield control(
        "the first die is not a function of the sum",
        equal("measurable", is_measurable(first, level_sets)[0], 1, atol=0),
    )
    yield control("only ∅ and Ω are events", equal("the sum is measurable", trivial.measurable, 1, atol=0))
    cells = [{"first": int(a), "second": int(b), "sum": int(a + b)} for a in faces for b in faces]
    base = alt.Chart(alt.Data(values=cells)).encode(alt.X("first:O"), alt.Y("second:O", sort="descending"))
    chart = base.mark_rect().encode(alt.Color("sum:Q", legend=None, scale=alt.Scale(scheme="blues")))
    text = base.mark_text().encode(alt.Text("sum:Q"))
    yield picture("level sets of the sum", (chart + text).properties(width=190, height=190))
