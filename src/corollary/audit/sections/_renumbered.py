"""Do tokens go by the same numbers in the test text? Numbers by which it reads as the training text does."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import quadratic_assignment

from corollary.audit._sample import interval
from corollary.audit._text import place_of_text, text_of
from corollary.audit.action import Action, Effect
from corollary.audit.finding import Finding, Premise, short
from corollary.audit.sections._paid_tokens import ENTROPY, measure_paid
from corollary.audit.sections._read_tokens import measure_targets

NAME = "numbers of the tokens in the test text"
# Of what training gained over the frequencies of single tokens so much is lost on the test text, and other numbers
# bring as much of that back.
LOST, BACK = 0.5, 0.5
# a larger vocabulary is not matched, one whose tokens are exchanged, steps of the search, pairs of numbers shown
TOKENS, EXCHANGED, STEPS, SHOWN = 256, 64, 100, 3


class Renumbered(NamedTuple):
    """The numbers `to` that tokens of the test text would have, the share of places that they change, and the test loss
    with the numbers there are and with these; the interval is that of what is gained.

    `home` is the training loss, and `single` what the frequencies of single tokens leave of the training text.
    """

    to: np.ndarray
    changed: float
    now: float
    then: float
    gained: tuple[float, float]
    ends: tuple[float, float]
    home: float
    single: float
    sequences: int


def measure(subject) -> Renumbered | None:
    """None where this is no language model of few tokens, or where its test text costs it about what it should."""
    if subject.test is None or subject.classes > TOKENS:
        return None
    ours, theirs = text_of(subject, "train"), text_of(subject, "test")
    if not (measure_targets(ours).next_token and measure_targets(theirs).next_token):
        return None
    if max(ours.tokens.max(), theirs.tokens.max()) >= subject.classes or not jnp.issubdtype(
        _targets(subject)[0].dtype, np.integer
    ):
        return None
    home, away = measure_paid(subject, "train"), measure_paid(subject, "test")
    loss, single, now = (float(a.sum() / p.text.known.sum()) for a, p in _sums(home, away))
    if not (single > loss and now - loss > LOST * (single - loss)):
        return None
    to = numbers(_pairs(ours, subject.classes), _pairs(theirs, subject.classes))
    again = measure_paid(subject.replaced(test=_renamed(subject, to)), "test")
    counts = theirs.known.sum(1)
    sums = again.network.sum(1)
    then = float(sums.sum() / counts.sum())
    low, high = interval((away.network.sum(1) - sums) / counts.mean())
    ends = interval((sums - then * counts) / counts.mean())
    changed = float(np.mean((to[theirs.tokens] != theirs.tokens)[theirs.known]))
    within = max(0.0, then + ends[0]), then + ends[1]
    return Renumbered(to, changed, now, then, (low, high), within, loss, single, len(counts))


def _sums(home, away):
    return (home.network, home), (home.unigram, home), (away.network, away)


def _targets(subject):
    """The targets of the test text, and their weights if there are any."""
    target = subject.test[1]
    return target if subject.weighted else (target,)


def _pairs(text, kinds: int) -> np.ndarray:
    """How often each token is followed by each, (kinds, kinds)."""
    out = np.zeros((kinds, kinds))
    np.add.at(out, (text.tokens[text.known], text.targets[text.known]), 1)
    return out


def numbers(ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    """The numbers under which pairs come as often in the second text as in the first, from their counts.

    The affinity of both laws of pairs is climbed, from tokens in the order of their frequencies and from none; in small
    vocabularies it goes on by exchanges of two tokens.
    """
    kinds = len(ours)
    ranked = np.zeros((kinds, kinds))
    # of equally frequent tokens, the order there is
    ranked[tuple(np.argsort(-(p.sum(0) + p.sum(1)), kind="stable") for p in (theirs, ours))] = 1.0
    flat = np.full((kinds, kinds), 1 / kinds)
    roots = [np.sqrt(p / p.sum()) for p in (theirs, ours)]
    climb = {"maximize": True, "maxiter": STEPS}
    found = [
        quadratic_assignment(*roots, method="faq", options=climb | {"P0": start})
        for start in (ranked / 2 + flat / 2, flat)
    ]
    if kinds <= EXCHANGED:
        guesses = [np.stack([np.arange(kinds), f.col_ind], 1) for f in found]
        found += [
            quadratic_assignment(*roots, method="2opt", options={"maximize": True, "partial_guess": g}) for g in guesses
        ]
    return np.asarray(max(found, key=lambda f: f.fun).col_ind)


def judge(found: Renumbered | None) -> Finding | None:
    """Nothing is said where nothing was in question."""
    if found is None:
        return None
    lost = found.now - found.home
    other = found.gained[0] > 0 and found.now - found.then > BACK * lost
    if other:
        moved = np.flatnonzero(found.to != np.arange(len(found.to)))
        some = ", ".join(f"{a} is {found.to[a]}" for a in moved[:SHOWN])
        some += f" and {len(moved) - SHOWN} more" if len(moved) > SHOWN else ""
        text = (
            f"Tokens are numbered differently in the test text (in the numbers of the training text {some}). "
            "Renumbered so that tokens follow on each other as in training, it is as unsure of a test token as among "
            f"{short(np.exp(found.then))} alike, and as they are given as among {short(np.exp(found.now))}. Make the "
            "numbers of both texts from one vocabulary."
        )
    else:
        text = "No other numbers of the tokens make the test text one that the network knows."
    seen = Premise(
        "the numbers are chosen by the texts alone, not by the network", True, f"{found.sequences} sequences"
    )
    value = 100 * found.changed if other else 0.0
    mark = "problem" if other else "fine"
    given = dict(exact=True, headline="The test text numbers its tokens differently")
    return Finding(NAME, mark, text, value, unit="% of the test tokens", premises=(seen,), **given, **ENTROPY)


def rename(subject, finding) -> Action:
    """The test text in the numbers of the training text."""
    found = measure(subject)
    effect = Effect("test loss", found.now, found.then, found.ends)
    what = "number the tokens of the test text by the vocabulary of the training text"
    return Action(what, NAME, effect, "short run", _by_one_vocabulary, 0.1)


def _by_one_vocabulary(subject, *, key):
    return subject.replaced(test=_renamed(subject, measure(subject).to))


def _renamed(subject, to) -> tuple:
    leaves, form = jax.tree.flatten(subject.test[0])
    place = place_of_text(subject)
    leaves[place] = jnp.asarray(to, leaves[place].dtype)[leaves[place]]
    y, *rest = _targets(subject)
    new = jnp.where(y >= 0, jnp.asarray(to, y.dtype)[jnp.maximum(y, 0)], y)
    return form.unflatten(leaves), (new, *rest) if subject.weighted else new
