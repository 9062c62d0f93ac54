"""How a network reads: what it is to say of each token, whether it sees later ones, whether their order matters."""

from typing import NamedTuple

import jax
import numpy as np

from corollary.audit import _plan
from corollary.audit._budget import BUDGETS
from corollary.audit._sample import interval, some
from corollary.audit._text import Text, reader_of, text_of
from corollary.audit.action import Action, Effect, by_hand
from corollary.audit.finding import Finding, Premise, short
from corollary.language import look_ahead, order_effect

TARGETS, AHEAD, ORDER = "targets that are the next token", "outputs that move with later tokens", "order of the tokens"
# labels of tokens are the next token by chance; joints of texts may break a few that should be
NEXT = 0.99
# A causal network moves by exactly nothing; what lies below a hundredth of a per cent may be rounding, and of what
# outputs may move by a hundredth is more than a leak of normalisation or padding.
ROUNDING, PROBLEM = 1e-4, 1e-2
# Permuting the tokens before the last moves a network with positions by tenths of what other tokens do, and one without
# by rounding alone.
ORDERED = 1e-2
# sequences that are tried, changes of each
SEQUENCES, DRAWS = 256, 4

CAUSAL = dict(
    theorem="Under a causal mask no output depends on a later token: its derivatives vanish exactly, and what a prefix "
    "gives does not change by what follows it.",
    claim="nets.attention.mask.autoregressive",
)
POSITIONS = dict(
    theorem="Attention moves with its tokens: without positions or a mask the order of the tokens changes nothing.",
    claim="nets.attention.positions_permutation.order_needs_positions",
)
MOVED = dict(
    theorem="A language model pays for each token given those before it; a token that is given itself costs nothing.",
    claim="language.stationary.loss_is_entropy_and_excess",
)


class Aim(NamedTuple):
    """The shares of the targets that are the next token, and that are the token itself; how many there are."""

    following: float
    own: float
    places: int

    @property
    def next_token(self) -> bool:
        """Whether the network is to say the next token: where a text has one, it is the target."""
        return self.following >= NEXT and self.own < 1.0


def measure_targets(text: Text) -> Aim:
    same = (text.targets == text.tokens)[text.known]
    # of the last token of a text the next one is padding
    after = text.known[:, :-1] & text.known[:, 1:]
    following = (text.targets[:, :-1] == text.tokens[:, 1:])[after]
    return Aim(float(following.mean()) if after.any() else 0.0, float(same.mean()), int(text.known.sum()))


def judge_targets(aim: Aim) -> Finding:
    given = dict(value=100 * aim.following, exact=True, unit="% of the targets", **MOVED)
    if aim.own == 1.0:
        text = (
            "Every target is the token that stands at its own place in the input: there is nothing to be predicted. "
            "Targets of a language model are the tokens moved by one: x[:, :-1] and x[:, 1:] of one text."
        )
        return Finding(TARGETS, "problem", text, headline="The targets are the inputs themselves", **given)
    kind = "this is a language model" if aim.next_token else "each token has a label of its own"
    text = f"Of {aim.places:,} targets {short(100 * aim.following)} % are the next token: {kind}."
    return Finding(TARGETS, "fine", text, **given)


class Ratio(NamedTuple):
    """The root of a ratio of mean squares over `n` of `total` sequences, with its interval; what it is divided by."""

    value: float
    interval: tuple[float, float]
    below: float
    n: int
    total: int


def _ratio(above, below, total: int) -> Ratio:
    above, below = np.asarray(above, float), np.asarray(below, float)
    mean = float(below.mean())
    if mean == 0:
        return Ratio(0.0, (0.0, 0.0), 0.0, len(above), total)
    ratio = above.mean() / mean
    low, high = interval((above - ratio * below) / mean) if len(above) > 1 else (-ratio, np.inf)
    ends = (float(np.sqrt(max(0.0, ratio + end))) for end in (low, high))
    return Ratio(float(np.sqrt(ratio)), tuple(ends), float(np.sqrt(mean)), len(above), total)


def _asked(subject, budget, key):
    """The network as one of tokens, and the sequences it is asked about."""
    passes = 2 * DRAWS + 1
    count = _plan.examples_for(subject, budget, passes, SEQUENCES)
    text = some(text_of(subject, "train")._asdict(), count, key)
    size = max(1, _plan.batch_of(subject, budget, SEQUENCES) // passes)
    given = dict(known=text["known"], beside=text["beside"], draws=DRAWS, batch_size=size)
    return reader_of(subject), text["tokens"], given


def measure_ahead(subject, budget, key) -> Ratio:
    """What outputs move by with later tokens, in what those of the later tokens move by."""
    some_key, draw_key = jax.random.split(key)
    reader, tokens, given = _asked(subject, budget, some_key)
    found = look_ahead(reader, tokens, key=draw_key, **given)
    return _ratio(found.earlier, found.later, subject.count())


def judge_ahead(found: Ratio, aim: Aim) -> Finding:
    facts = CAUSAL | {"premises": _seen(found)}
    if found.below == 0:
        text = "No output moves with any token: the network does not read."
        return Finding(AHEAD, "problem", text, 0.0, exact=True, headline="It does not read its tokens", **facts)
    said = (
        f"When later tokens change, the outputs before them move by {short(100 * found.value)} % of what the others do"
    )
    given = dict(value=100 * found.value, unit="% of the later outputs", **facts)
    given |= {"exact": True} if found.value == 0 else {"interval": tuple(100 * end for end in found.interval)}
    if found.value <= ROUNDING:
        end = "exactly: it is causal" if found.value == 0 else "which is rounding: it is causal"
        return Finding(AHEAD, "fine", f"{said}, {end}.", **given)
    if not aim.next_token:
        return Finding(AHEAD, "fine", f"{said}: it reads in both directions, as a labelling of tokens may.", **given)
    end = (
        "it sees the future, in which the answers stand. In use there is none, and what it has learned from it is lost"
    )
    mark = "problem" if found.interval[0] > PROBLEM else "look"
    return Finding(AHEAD, mark, f"{said}: {end}.", headline="It sees the future", **given)


def measure_order(subject, budget, key) -> Ratio | str:
    """What the last output moves by with the order of the tokens before, in what it moves by with other tokens."""
    some_key, draw_key = jax.random.split(key)
    reader, tokens, given = _asked(subject, budget, some_key)
    if tokens.shape[1] < 3:
        return "Sequences of two tokens have one order before the last: give longer ones."
    found = order_effect(reader, tokens, key=draw_key, **given)
    out = np.asarray(subject.outputs("train"), float)
    out = out - out.mean(-1, keepdims=True)
    spread = float(np.sqrt(((out - out.mean((0, 1))) ** 2).sum(-1).mean()))
    ratio = _ratio(found.permuted, found.replaced, subject.count())
    return ratio._replace(below=ratio.below / spread if spread > 0 else 0.0)


def judge_order(found: Ratio | str, aim: Aim) -> Finding:
    if isinstance(found, str):
        return Finding(ORDER, "not applicable", found, **POSITIONS)
    facts = POSITIONS | {"premises": _seen(found)}
    if found.below <= ROUNDING:
        text = "Other tokens before the last change nothing: it reads the last token alone"
        mark, end = ("look", ", and can know no more than pairs of tokens.") if aim.next_token else ("fine", ".")
        return Finding(ORDER, mark, text + end, 0.0, exact=True, headline="It reads the last token alone", **facts)
    said = (
        f"Another order of the tokens before the last moves its output by {short(100 * found.value)} % of what other "
    )
    said += "tokens do"
    given = dict(value=100 * found.value, interval=tuple(100 * end for end in found.interval), unit="%", **facts)
    if found.interval[1] >= ORDERED:
        return Finding(ORDER, "fine", f"{said}: order matters.", **given)
    end = "order is nothing to it, as in attention without positions: it reads a bag of tokens"
    mark = "problem" if aim.next_token else "look"
    return Finding(ORDER, mark, f"{said}: {end}.", headline="The order of the tokens is nothing to it", **given)


def _seen(found: Ratio) -> tuple[Premise, ...]:
    seen = Premise(
        "measured on all training sequences", found.n == found.total, f"{found.n:,} of {found.total:,} sequences"
    )
    return seen, Premise("every change of tokens was tried", False, f"{DRAWS} random ones of each sequence")


def shift(subject, finding) -> Action:
    effect = Effect(TARGETS, finding.value, 100.0, (100.0, 100.0), _aimed)
    what = "move the targets by one token, y[:, t] = x[:, t + 1], and train again"
    return Action(what, TARGETS, effect, "theorem", by_hand)


def _aimed(subject) -> float:
    return 100 * measure_targets(text_of(subject, "train")).following


def mask(subject, finding) -> Action:
    """What a mask does to the outputs is certain; what the loss will be then is not known before the training."""
    effect = Effect(AHEAD, finding.value, 0.0, (0.0, 100 * ROUNDING), _moved_ahead)
    what = "let no token see later ones (a causal mask in every attention, one direction in every recurrent layer), "
    return Action(f"{what}and train again", AHEAD, effect, "theorem", by_hand)


def _moved_ahead(subject) -> float:
    return 100 * measure_ahead(subject, BUDGETS["quick"], jax.random.key(0)).value


def add_positions(subject, finding) -> Action | None:
    if finding.interval is None:  # it reads the last token alone: positions would not change that
        return None
    effect = Effect(ORDER, finding.value, 100.0, (100 * ORDERED, np.inf), _moved_by_order)
    what = "add positions to the tokens (learned, sinusoidal or rotary) and train again"
    return Action(what, ORDER, effect, "theorem", by_hand)


def _moved_by_order(subject) -> float:
    return 100 * measure_order(subject, BUDGETS["quick"], jax.random.key(0)).value
