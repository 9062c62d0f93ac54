"""What a network pays for its tokens, beside what counting would pay, and tokens that training never showed."""

from typing import NamedTuple

import numpy as np

from corollary.audit._sample import interval
from corollary.audit._text import Text, text_of
from corollary.audit.action import Action, Effect, by_hand
from corollary.audit.finding import Finding, Premise, short
from corollary.audit.sections._explained import listed
from corollary.audit.sections._read_tokens import Aim, measure_targets
from corollary.language import counted_losses
from corollary.nets.attention import token_cross_entropy

PERPLEXITY, UNSEEN = "perplexity", "tokens that training never showed"
# Of the loss that counting pays. Text that is no more than pairs of tokens leaves a good network just above counting.
WORSE = 0.05
# of the test loss, what tokens that were never seen cost beyond the others
COSTS, COSTS_MUCH = 0.01, 0.1
# a law of pairs goes back to single tokens as if these had been seen once beside
SMOOTHING = 1.0
ENTROPY = dict(
    theorem="A model of single tokens pays at least their entropy, reached by their frequencies; the loss of any model "
    "is the entropy of the text and its excess over it.",
    claim="language.stationary.loss_is_entropy_and_excess",
)


class Paid(NamedTuple):
    """The loss of every place (n, T) of a text, 0 where nothing is known: of the network, and of counting."""

    network: np.ndarray
    unigram: np.ndarray
    bigram: np.ndarray
    text: Text


def measure_paid(subject, split: str) -> Paid:
    text, train = text_of(subject, split), text_of(subject, "train")
    targets = np.where(text.known, text.targets, 0)
    each = np.asarray(token_cross_entropy(subject.outputs(split), targets), float)
    # on the training text itself the losses of its frequencies are its entropies
    smoothing = 0.0 if split == "train" else SMOOTHING
    places = [(t.tokens[t.known], t.targets[t.known]) for t in (train, text)]
    counted = counted_losses(*places, vocabulary=subject.classes, smoothing=smoothing)

    def laid(values):
        out = np.zeros(text.known.shape)
        out[text.known] = np.asarray(values, float)
        return out

    return Paid(np.where(text.known, each, 0.0), *map(laid, counted), text)


def _per_token(sums, counts) -> tuple[float, tuple[float, float]]:
    """The mean over places of sums over sequences, with an interval over sequences: a ratio of means, linearised."""
    mean = float(sums.sum() / counts.sum())
    low, high = interval((sums - mean * counts) / counts.mean())
    return mean, (mean + low, mean + high)


def judge_perplexity(paid: Paid, split: str) -> Finding:
    counts = _counts(paid.text)
    loss, ends = _per_token(paid.network.sum(1), counts)
    single, pairs = (float(a.sum() / counts.sum()) for a in (paid.unigram, paid.bigram))
    word = "test" if split == "test" else "training"
    said = (
        f"On {word} text it is as unsure of a token as among {short(np.exp(loss))} alike; the frequencies of single "
        f"tokens leave {short(np.exp(single))}, those of pairs {short(np.exp(pairs))}"
    )
    beyond = [_per_token((paid.network - a).sum(1), counts)[1][0] for a in (paid.unigram, paid.bigram)]
    if beyond[0] > WORSE * single:
        mark, end = "problem", "it knows less of its text than how often each token comes"
    elif beyond[1] > WORSE * single:
        mark, end = "look", "counting pairs of tokens would do better"
    else:
        mark, end = "fine", "it knows more than counting does" if loss < pairs else "it knows what counting pairs does"
    premises = (
        Premise("sequences are drawn independently", None, f"{len(counts)} sequences, {int(counts.sum())} tokens"),
        Premise(
            "counting saw the same training text", True, f"smoothing {short(0 if split == 'train' else SMOOTHING)}"
        ),
    )
    within = tuple(float(np.exp(np.clip(end, -700, 700))) for end in ends)
    given = dict(value=float(np.exp(loss)), interval=within, unit="tokens", premises=premises, **ENTROPY)
    headline = f"Counting {'single' if mark == 'problem' else 'pairs of'} tokens would do better"
    return Finding(PERPLEXITY, mark, f"{said}: {end}.", headline=headline, **given)


class Unseen(NamedTuple):
    """Tokens that training never showed, at so many places of the test text, and their share of its loss.

    The share is what they cost beyond the `rest`, the loss per token of all others. `seen` is how many of the training
    sequences were looked at, and how many there are.
    """

    tokens: np.ndarray
    places: int
    share: float
    interval: tuple[float, float]
    rest: float
    rest_ends: tuple[float, float]
    seen: tuple[int, int]


def measure_unseen(subject, aim: Aim) -> Unseen | str:
    """Tokens of the test text, as inputs and in a language model as targets, that the training text has not so."""
    train = text_of(subject, "train")
    if subject.test is None:
        missing = np.setdiff1d(np.arange(subject.classes), np.union1d(train.tokens, train.targets[train.known]))
        if not aim.next_token or not len(missing):
            return "There is no test text, whose tokens training might not have shown: give test=(x, y)."
        return (
            f"There is no test text. The training text never shows {_called(missing)}, which cannot have been learned."
        )
    paid = measure_paid(subject, "test")
    text = paid.text
    new = ~np.isin(text.tokens, train.tokens[train.known]) & text.known
    aimed = ~np.isin(text.targets, train.targets[train.known]) & text.known & aim.next_token
    tokens, hit = np.union1d(text.tokens[new], text.targets[aimed]), new | aimed
    seen = len(train.tokens), subject.count()
    others = text.known & ~hit
    if not hit.any() or not others.any():
        share = float(hit.any())
        return Unseen(
            tokens, int(hit.sum()), share, (share, share), *_per_token(paid.network.sum(1), _counts(text)), seen
        )
    rest, ends = _per_token((paid.network * others).sum(1), others.sum(1))
    share, within = _per_token(((paid.network - rest) * hit).sum(1), paid.network.sum(1))
    return Unseen(tokens, int(hit.sum()), share, within, rest, ends, seen)


def judge_unseen(found: Unseen | str) -> Finding:
    facts = dict(
        theorem="The frequencies of a text are its most likely law, and give what it never shows no probability; a row "
        "of a table that is never looked up has no gradient, and stays where it started.",
        claim="language.ngram.frequencies_are_most_likely",
    )
    if isinstance(found, str):
        return Finding(UNSEEN, "not applicable", found, **facts)
    whole = Premise(
        "all of the training text was looked at",
        found.seen[0] == found.seen[1],
        "{} of {} sequences".format(*found.seen),
    )
    facts |= {"premises": (whole,), "unit": "% of the test loss"}
    if found.places == 0:
        said = "Every token of the test text stands in the training text too."
        return Finding(UNSEEN, "fine", said, 0.0, exact=True, **facts)
    said = (
        f"The test text has {_called(found.tokens)}, which the training text never shows, at {found.places} places: "
        f"beyond what other tokens cost, {short(100 * found.share)} % of the test loss."
    )
    low = found.interval[0] if whole.holds else 0.0  # what was not looked at may have them
    mark = "problem" if low > COSTS_MUCH else "look" if low > COSTS else "fine"
    facts["headline"] = "The test text has tokens that training never showed"
    return Finding(UNSEEN, mark, said, 100 * found.share, tuple(100 * end for end in found.interval), **facts)


def show_tokens(subject, finding) -> Action:
    """If they cost what the others do; how much of it training on them would bring is not known."""
    found = measure_unseen(subject, measure_targets(text_of(subject, "train")))
    now = subject.mean_loss("test")
    effect = Effect("test loss", now, found.rest, (min(found.rest_ends[0], found.rest), max(now, found.rest)))
    what = f"train on text with {_called(found.tokens)}, or read all that is unknown as one token that training shows"
    return Action(what, UNSEEN, effect, "theorem", by_hand)


def _counts(text: Text) -> np.ndarray:
    return text.known.sum(1)


def _called(tokens) -> str:
    return f"the token{'s' if len(tokens) > 1 else ''} {listed(tokens)}"
