"""Are the inputs at the scale that the network was made for? Its accuracy at other ones, and both parts of the data."""

from typing import NamedTuple

import numpy as np
from scipy.stats import binomtest

from corollary.audit._sample import numbers_of
from corollary.audit.finding import Finding, Premise, short
from corollary.audit.sections._attackable import Attackable
from corollary.audit.sections._blind import LEARNED

NAME = "inputs at another scale"
# bytes taken for shares of 1 or the other way round, and a few factors in between
FACTORS = (1 / 255, 1 / 16, 1 / 4, 4.0, 16.0, 255.0)
# A network is best at the scale it was trained at. Another is named where it is right on so many more examples, beyond
# what chance gives once in a thousand times among all factors tried.
BETTER, CHANCE = 0.1, 1e-3
# Root mean squares of training and test inputs of one law differ by hundredths; units taken for others by factors.
LOOK, PROBLEM = 1.5, 4.0
# a ratio so near to one of the factors, in its logarithm, is that factor
USUAL = 0.1
# numbers of each part that are looked at
NUMBERS = 2**22
FACTS = dict(
    theorem="A network is a function of its inputs' unit too: of a linear layer and its bias only the first is "
    "multiplied where the inputs are.",
    claim="linear.scoring.conditioning",
)


class Scales(NamedTuple):
    """How many more of the examples are right at each factor, and the size of test inputs.

    `right` are right as is, and `blind` is the share that the most frequent class has.
    `gains` and `losses` count the examples that are right at the factor and wrong as is, and the other way round.
    `ratio` is the root mean square of the test inputs over that of the training inputs, 1 without test data.
    """

    n: int
    factors: tuple[float, ...]
    gains: tuple[int, ...]
    losses: tuple[int, ...]
    ratio: float
    right: int
    blind: float

    @property
    def best(self) -> int:
        return int(np.argmax(np.subtract(self.gains, self.losses)))

    @property
    def by_chance(self) -> float:
        """How likely as many gains are where the factor makes no difference, at the best of all factors."""
        gained, changed = self.gains[self.best], self.gains[self.best] + self.losses[self.best]
        return min(1.0, len(self.factors) * float(binomtest(gained, max(changed, 1), 0.5, "greater").pvalue))


def measure(subject, victim: Attackable) -> Scales:
    """The class of every example at every factor, and the sizes of the inputs."""
    sizes = [np.sqrt(np.mean(numbers_of(subject.data(s)[0], NUMBERS) ** 2)) for s in subject.splits]
    ratio = float(sizes[-1] / sizes[0]) if sizes[0] > 0 else 1.0
    # what makes the parts of the data alike is tried as well
    factors = FACTORS if 1 / LOOK < ratio < LOOK or ratio == 0 else (*FACTORS, 1 / ratio)
    right = np.asarray(subject.predict(victim.x)) == victim.y
    there = [_right(subject, victim, factor) for factor in factors]
    gains, losses = (
        tuple(int(np.sum(a)) for a in b) for b in ([t & ~right for t in there], [right & ~t for t in there])
    )
    blind = float(np.unique(victim.y, return_counts=True)[1].max() / len(right))
    return Scales(len(right), factors, gains, losses, ratio, int(right.sum()), blind)


def _right(subject, victim, factor):
    moved = np.asarray(factor * victim.x, victim.x.dtype)
    try:
        return np.asarray(subject.predict(moved)) == victim.y
    except (ValueError, FloatingPointError):  # no finite outputs so far from the data
        return np.zeros(len(victim.y), bool)


def judge(found: Scales) -> Finding:
    best = found.best
    net = (found.gains[best] - found.losses[best]) / found.n
    factor = found.factors[best]
    # wrong labels make a network worse than a blind guess, and then any scale is better
    # A network has a scale of its own once it has learned. Outputs that have hardly left their start are right more
    # often at many another scale.
    knows = found.right / found.n + net > found.blind + max(BETTER, LEARNED * (1 - found.blind))
    better = net > BETTER and found.by_chance < CHANCE and knows
    off = max(found.ratio, 1 / found.ratio) if found.ratio > 0 else np.inf
    mark = "problem" if better or off > PROBLEM else "look" if off > LOOK else "fine"
    text = ""
    if off > LOOK:
        larger = "larger" if found.ratio > 1 else "smaller"
        text += f"The test inputs are {short(off)} times {larger} than the training inputs. "
    if better:
        text += (
            f"With the inputs {multiplied(factor)} it is right on {short(100 * net)} % more of {found.n} examples: it "
        )
        text += "was made for that scale, and what else is said here is about another."
    elif off > LOOK:
        text += "The network was not trained on such inputs: bring both parts of the data to one scale."
    else:
        gained = f"{short(100 * net)} % more examples at best" if net > 0 else "no more examples"
        text += f"At {len(found.factors)} other scales, from 1/255 to 255, it is right on {gained}: "
        text += "the inputs are at its own." if net <= 0 else "that does not show another scale to be its own."
    error = 1.96 * np.sqrt(max(found.gains[best] + found.losses[best] - found.n * net**2, 0)) / found.n
    headline = "The inputs are not at the network's scale" if better else "Training and test inputs differ in size"
    alike = Premise("training and test inputs of one size", off <= LOOK, f"ratio {short(found.ratio)}")
    return Finding(
        NAME, mark, text, 100 * net, (100 * (net - error), 100 * (net + error)), unit="% more right at the best other",
        premises=(alike,), headline=headline, **FACTS,
    )  # fmt: skip


def multiplied(factor: float) -> str:
    """How a factor is said."""
    return f"divided by {short(1 / factor)}" if factor < 1 else f"multiplied by {short(factor)}"


def treated(subject, found: Scales) -> tuple[float, tuple[str, ...]]:
    """The factor that the inputs should be multiplied by, and the parts of the data that this is true of."""
    if 1 / LOOK < found.ratio < LOOK or found.ratio == 0:
        return found.factors[found.best], subject.splits
    # a usual factor, where the ratio is about that
    nearest = min(FACTORS, key=lambda factor: abs(np.log(factor * found.ratio)))
    return (nearest if abs(np.log(nearest * found.ratio)) < USUAL else 1 / found.ratio), ("test",)
