"""Which inputs the network lives by: permutation importance and Shapley values, in training and in test."""

from typing import NamedTuple

import altair as alt
import jax
import jax.numpy as jnp
import numpy as np

from corollary._charts import MEASURED, PREDICTED
from corollary.attribution import feature_importance
from corollary.audit import _plan
from corollary.audit._sample import some
from corollary.audit.finding import Finding, Premise, short
from corollary.audit.sections._players import MOST, Players, players_of
from corollary.evidence import picture
from corollary.network.batches import count

IMPORTANT, SHORTCUT = "most important input", "input that counts in training and not in test"
FACTS = dict(
    theorem="Shapley values are the one way to divide what all inputs are worth that is fair to equal ones, gives "
    "nothing to idle ones and adds up; permutation importance is one increment of them, and near 0 for each of several "
    "inputs that say the same.",
    claim="attribution.permutation.copies_share_the_credit",
)
# examples of each split, others that each of them meets, the fewest examples and players that are still told apart, and
# the share of a section's work
ROWS, DRAWS, FEWEST, COARSE, SHARE = 512, 4, 32, (MOST, 16, 4), 0.1
# One input that has four fifths of what all have together decides alone, where there are others.
ALONE, OTHERS = 0.8, 3
# An input carries a decision with a quarter of what all inputs cost when they are shuffled one by one; of that an input
# that means the same in the test data costs as much there. Less than half of it, beyond both intervals, is a shortcut.
CARRIES, KEPT = 0.25, 0.5
# what all inputs bring must be so many times as large as the widest interval of one, or there is nothing to divide
CERTAIN = 2.0
SHOWN = 10
METRICS = {True: "probability of the target", False: "loss"}
#: what inputs do to it, and what is lost without them
RAISE, TAKES = {True: "raise", False: "lower"}, {True: "takes {} off", False: "adds {} to"}
TOO_MUCH = "This was left out: so many passes through this network take too long. --budget full measures it."


class Score(NamedTuple):
    """A loss as a metric, larger where better: the probability of the target where the loss is its logarithm.

    A few confident mistakes have most of a mean logarithm; probabilities have a mean with an interval.
    """

    loss: object
    logarithm: bool

    def __call__(self, output, target):
        loss = self.loss(output, target)
        return jnp.exp(-loss) if self.logarithm else -loss


class Worth(NamedTuple):
    """Of one split: permutation importances and Shapley values of the players, (players,), and their intervals."""

    permutation: np.ndarray
    permutation_ends: np.ndarray
    shapley: np.ndarray
    shapley_ends: np.ndarray


class Importances(NamedTuple):
    """The players, what they are worth on training data and on test data (or None), how many examples that took, and
    what their worth is measured by."""

    players: Players
    train: Worth
    test: Worth | None
    rows: int
    likelihood: bool

    @property
    def metric(self) -> str:
        """What importances are measured in."""
        return METRICS[self.likelihood]


def measure_importance(subject, budget, key) -> Importances | str:
    """What the inputs are worth; a sentence where that is not measured."""
    x = subject.train[0]
    least = min(subject.count(split) for split in subject.splits)
    most = min(ROWS, *(count(subject.data(split)) for split in subject.splits))
    if least < 2:
        return "Of a single example nothing can be taken from another one."
    for coarse in COARSE:
        players = players_of(x, coarse, subject.columns)
        passes = len(subject.splits) * DRAWS * (2 * len(players.names) + 1)
        rows = int(min(most, SHARE * budget.work / (passes * _plan.forward(subject))))
        if rows >= min(FEWEST, most):
            break
    else:
        return TOO_MUCH
    if len(players.names) < 2:
        return "There is one number to look at, and it decides everything."
    rows = 2 ** (rows.bit_length() - 1)  # batches of one size are one program
    batch_size = _plan.batch_of(subject, budget, 8192)
    logarithm = subject.loss_name.endswith("cross_entropy") and not subject.weighted
    found = {}
    for split, one in zip(subject.splits, jax.random.split(key), strict=False):
        row_key, draw_key = jax.random.split(one)
        data = some(subject.data(split), rows, row_key)
        given = dict(players=players.owner, draws=DRAWS, key=draw_key, batch_size=batch_size)
        worth = feature_importance(subject.network, Score(subject.loss.function, logarithm), data, **given)
        found[split] = Worth(*(np.asarray(a, float) for part in worth for a in part[:2]))
    return Importances(players, found["train"], found.get("test"), rows, logarithm)


def judge_importance(numbers: Importances | str, alike: tuple[str, float] | None) -> Finding:
    """Both importances side by side; `alike` are two columns and their correlation, the largest there is."""
    if isinstance(numbers, str):
        return Finding(IMPORTANT, "not applicable", numbers, **FACTS)
    split, worth = ("test", numbers.test) if numbers.test is not None else ("training", numbers.train)
    names, total = numbers.players.names, worth.shapley.sum()
    order = np.argsort(-worth.shapley)
    best = int(order[0])
    noise = float(np.diff(worth.shapley_ends, axis=0).max()) / 2
    if total <= CERTAIN * noise:
        size = "larger" if numbers.likelihood else "smaller"
        text = f"On {split} data the {numbers.metric} is hardly {size} than with the inputs of other examples: no "
        text += "input says anything."
        given = dict(unit="% of all inputs", headline="No input says anything")
        return Finding(IMPORTANT, "look", text, 0.0, exact=True, **given, **FACTS)
    share, ends = worth.shapley[best] / total, worth.shapley_ends[:, best] / total
    text = (
        f"On {split} data all inputs together {RAISE[numbers.likelihood]} the {numbers.metric} by {short(total)}, "
        f"{short(100 * share)} % of it through {names[best]}; shuffling nothing else "
        f"{_takes(numbers, worth.permutation[best])} it. "
    )
    alone = len(names) >= OTHERS and share >= ALONE
    text += (
        f"It decides by {names[best]}: is that what you want it to see?"
        if alone
        else f"Next are {' and '.join(names[i] for i in order[1:3])}."
    )
    premises = (
        Premise("inputs not correlated, so that one can be taken away alone", None)
        if alike is None
        else Premise(
            "inputs not correlated, so that one can be taken away alone",
            bool(abs(alike[1]) < 0.5),
            f"{alike[0]}: correlation {short(alike[1])}",
        ),
        Premise("measured on all examples", None, f"{numbers.rows} examples, {len(names)} inputs or groups of them"),
    )
    figure = picture("importance of the inputs", _chart(numbers, worth, order[:SHOWN]))
    mark = "look" if alone else "fine"
    headline = "One input decides almost alone"
    given = dict(unit="% of all inputs", premises=premises, figure=figure, headline=headline)
    return Finding(IMPORTANT, mark, text, 100 * share, (100 * ends[0], 100 * ends[1]), **given, **FACTS)


def shortcut_of(numbers: Importances) -> tuple[int, bool]:
    """The player that keeps least of its importance in the test data, among those that carry a decision, and whether
    that is a shortcut."""
    train, test = numbers.train, numbers.test
    carries = train.permutation >= CARRIES * np.maximum(train.permutation, 0).sum()
    carries |= np.arange(len(carries)) == train.permutation.argmax()
    lost = np.where(carries, KEPT * train.permutation_ends[0] - test.permutation_ends[1], -np.inf)
    player = int(lost.argmax())
    whole = np.maximum(train.permutation, 0).sum()
    enough = train.permutation[player] >= CARRIES * whole
    return player, bool(enough and lost[player] > 0 and not _others_lost(numbers, player, whole))


def _others_lost(numbers: Importances, player: int, whole: float) -> bool:
    """Whether the other inputs count in training too, and in the test data as little: then that is not about one input,
    but about test data that have another rule, or other labels."""
    rest = np.arange(len(numbers.train.permutation)) != player
    costs = np.maximum(numbers.train.permutation[rest], 0).sum()
    return bool(costs >= CARRIES * whole and numbers.test.permutation[rest].sum() < KEPT * costs)


def judge_shortcut(numbers: Importances | str) -> Finding:
    """An input that carries decisions in training and not in test."""
    facts = dict(
        theorem="An input that the loss does not depend on in the test data costs nothing there when it is shuffled, "
        "whatever it costs in training.",
        claim="attribution.permutation.average_over_shuffles",
    )
    if isinstance(numbers, str) or numbers.test is None:
        why = numbers if isinstance(numbers, str) else "No test data were given to compare the training data with."
        return Finding(SHORTCUT, "not applicable", why, **facts)
    player, shortcut = shortcut_of(numbers)
    train, test = numbers.train, numbers.test
    name, costs, rest = numbers.players.names[player], train.permutation[player], test.permutation[player]
    if costs <= 0:
        return Finding(SHORTCUT, "not applicable", "No input by itself counts in training.", **facts)
    kept = 100 * rest / costs
    # the ends of both intervals: the ratio lies between with at least 90 %
    low, high = test.permutation_ends[:, player]
    least, largest = train.permutation_ends[:, player]
    ends = (
        min(kept, 100 * low / largest if largest > 0 else kept),
        max(kept, 100 * high / least if least > 0 else np.inf),
    )
    text = f"Shuffling {name} {_takes(numbers, costs)} the {numbers.metric} in training and {short(rest)} in test. "
    if shortcut:
        mark = "problem"
        text += "A decision hangs on it in training that it does not carry in test: a shortcut, or a leak of the label."
    else:
        mark = "fine"
        text += "No input alone counts in training and not in test."
    given = dict(unit="% of its cost in training", headline="It takes a shortcut that fails in test", **facts)
    return Finding(SHORTCUT, mark, text, float(kept), (float(ends[0]), float(ends[1])), **given)


def _takes(numbers: Importances, costs: float) -> str:
    return TAKES[numbers.likelihood].format(short(costs))


def _chart(numbers: Importances, worth: Worth, order):
    kinds = {
        "Shapley value": (worth.shapley, worth.shapley_ends),
        "shuffled alone": (worth.permutation, worth.permutation_ends),
    }
    rows = [
        {"input": numbers.players.names[i], "kind": kind, "worth": values[i], "low": ends[0, i], "high": ends[1, i]}
        for kind, (values, ends) in kinds.items()
        for i in order
    ]
    base = alt.Chart(alt.Data(values=rows)).encode(
        y=alt.Y("input:N", title=None, sort=None, axis=alt.Axis(labelLimit=200)),
        yOffset=alt.YOffset("kind:N", sort=None),
    )
    colour = alt.Color(
        "kind:N",
        scale=alt.Scale(domain=list(kinds), range=[MEASURED, PREDICTED]),
        legend=alt.Legend(title=None, orient="top"),
    )
    bars = base.mark_bar().encode(x=alt.X("worth:Q", title=f"worth in {numbers.metric}"), color=colour)
    whiskers = base.mark_rule().encode(x=alt.X("low:Q", title=f"worth in {numbers.metric}"), x2="high:Q")
    return (bars + whiskers).properties(width=240, height=alt.Step(11))
