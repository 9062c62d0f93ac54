"""The measured gap between training and test data, with an exact interval where errors are counted."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.stats import binomtest

from corollary.audit._losses import DIFFERENCES
from corollary.audit._sample import interval
from corollary.audit.finding import Finding, Premise, short
from corollary.audit.sections._blind import LEARNED
from corollary.network.losses import IGNORED

# Of what training gained over a blind guess this share is lost on the test data. Networks that fit a tenth of wrong
# labels, or a few hundred examples, lose up to a third; one that has learned its examples by heart loses all.
LOOK, PROBLEM = 0.5, 0.8
# a network that has gained less than this over a blind guess has little to lose
GAINED = 0.1

#: how the sentence ends of a network that has learned nothing that could carry over
NOTHING = "there is little to lose"
#: and where the test data are too few, or too uneven, to tell a gap from chance
OPEN = "but these test data do not tell that from chance"

#: the names of the finding, by what is counted
GAP = {"error": "gap between training and test error", "loss": "gap between training and test loss"}

FACTS = dict(
    theorem="A function that was fixed before the examples were drawn errs on a binomial number of them, so that its "
    "error on new ones is known up to an exact interval; one that the examples chose is not bound by it.",
    claim="generalization.bound.learned_is_not_fixed",
)


class Classes(NamedTuple):
    """A network that gives one class to every example, its training data and its test data (or None), with labels."""

    network: Any
    data: tuple
    test: tuple | None


def classes_of(subject, network) -> Classes | None:
    """The subject as a classifier whose 0-1 error bounds speak of; None if it is none."""
    if subject.classes is None or subject.labels("train").ndim > 1 or subject.outputs("train").ndim > 2:
        return None
    if subject.class_axis is None and subject.threshold != 0:
        return None  # the bounds take the sign of an output for its class
    x = {split: subject.data(split)[0] for split in subject.splits}
    pairs = {split: (x[split], subject.labels(split)) for split in subject.splits}
    return Classes(network, pairs["train"], pairs.get("test"))


class Errors(NamedTuple):
    """The error on the training data, on the test data with its interval at 95 %, and that of a blind guess there."""

    what: str
    train: float
    test: float
    interval: tuple[float, float]
    blind: float | None
    exact: bool

    @property
    def predicted(self) -> bool:
        """Whether test data are predicted better than by a blind guess, beyond chance."""
        return self.blind is not None and self.interval[1] < self.blind


def errors_of(subject) -> Errors:
    """Shares of wrong classes where there are classes, losses otherwise."""
    if subject.classes is None:
        return _losses(subject)
    wrong, known = _by_example(subject, "test")
    test = float(wrong.sum() / known.sum())
    if known.max() == 1:
        found = binomtest(int(wrong.sum()), int(known.sum())).proportion_ci(0.95, "exact")
        ends = float(found.low), float(found.high)
    else:
        # places of one example are no independent trials: the ratio of two means over examples, linearised
        low, high = interval((wrong - test * known) / known.mean())
        ends = max(0.0, test + low), min(1.0, test + high)
    counted = np.asarray(subject.labels("train")).ravel()
    most = np.bincount(counted[counted != IGNORED]).argmax()
    seen = np.asarray(subject.labels("test")).ravel()
    blind = float(np.mean(seen[seen != IGNORED] != most))
    return Errors("error", subject.error("train"), test, ends, blind, bool(known.max() == 1))


def _by_example(subject, split):
    """How many places of each example are wrong, and how many have a class."""
    labels = np.asarray(subject.labels(split))
    known = labels != IGNORED
    wrong = (np.asarray(subject.predict(split)) != labels) & known
    return tuple(a.reshape(len(labels), -1).sum(1) for a in (wrong, known))


def _losses(subject) -> Errors:
    out, (_, y) = subject.outputs("test"), subject.test
    each = np.asarray(jax.vmap(subject.loss.function)(out, y), float)
    low, high = interval(each) if len(each) > 1 else (-np.inf, np.inf)
    # the losses with a name are not negative
    ends = low if subject.loss_name == "custom" else max(0.0, low), high
    blind = None
    if subject.loss_name in DIFFERENCES:
        centre = jnp.mean(subject.targets("train"), axis=0)
        blind = float(subject.loss.of_outputs(jnp.broadcast_to(centre, out.shape).astype(out.dtype), y))
    return Errors("loss", subject.mean_loss("train"), float(each.mean()), ends, blind, False)


def learned_by_errors(subject) -> bool:
    """Whether it errs on less than half as much of the training data as a blind guess; False without classes."""
    if subject.classes is None:
        return False
    labels = np.asarray(subject.labels("train")).ravel()
    shares = np.bincount(labels[labels != IGNORED]) / np.sum(labels != IGNORED)
    return subject.error("train") < LEARNED * (1 - shares.max())


def gap(found: Errors | None) -> Finding:
    if found is None:
        return Finding(
            "gap",
            "not applicable",
            "No test data were given, and an error on the training data says nothing about new ones: give "
            "test=(x, y) that training has not seen. What follows needs none, and is weaker.",
            **FACTS,
        )
    name, (low, high) = GAP[found.what], found.interval
    if found.what == "error":
        train, test, low_said, high_said = (f"{100 * e:.3g} %" for e in (found.train, found.test, low, high))
        said = f"It errs on {train} of the training data and {test} of the test data: on {low_said} to {high_said} of "
        said += "new examples of that kind"
    else:
        said = f"The loss is {short(found.train)} on the training data and {short(found.test)} on the test data: "
        said += f"{short(low)} to {short(high)} on new examples of that kind"
    mark, end = _verdict(found)
    unseen = Premise("the test data played no part in training, nor in any choice", None)
    alike = Premise("training and test data follow one law, examples independently", None)
    gaps = low - found.train, high - found.train
    headline = f"It {'does not generalise' if mark == 'problem' else 'generalises poorly'} to the test data"
    given = dict(premises=(unseen, alike), headline=headline)
    return Finding(name, mark, f"{said}. {end}", found.test - found.train, gaps, **given, **FACTS)


def _verdict(found: Errors) -> tuple[str, str]:
    if found.blind is None:
        return "fine", "What a blind guess would have is not known for this loss."
    gained = found.blind - found.train
    if gained <= GAINED * found.blind:
        guess = f"a blind guess ({short(found.blind)})"
        than = f"is worse than {guess}" if gained < -GAINED * found.blind else f"hardly beats {guess}"
        text = f"On the training data it {than}: {NOTHING}."
        return "fine", text
    lost, least = (found.test - found.train) / gained, (found.interval[0] - found.train) / gained
    if lost <= 0:
        return "fine", "Nothing of what it learned is lost on them."
    share = f"Of what training gained over a blind guess, {100 * lost:.3g} % is lost on them"
    if lost > 1:
        share = "All that training gained over a blind guess is lost on them, and more"
    if least > PROBLEM or (lost >= 1 and least > LOOK):
        known = "what it learned, it learned by heart, or the test data are of another kind"
        return "problem", f"{share}: {known}."
    if least > LOOK:
        return "look", f"{share}: most of what it learned does not carry over."
    if lost > PROBLEM:
        return "fine", f"{share}, {OPEN}."
    return "fine", f"{share}."
