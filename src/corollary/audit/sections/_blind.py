"""What a blind guess costs: the training loss of the best answer that does not look at its input."""

import jax.numpy as jnp
import numpy as np
from scipy import stats

from corollary.audit._losses import DIFFERENCES
from corollary.audit.finding import Finding, Premise, short
from corollary.network.losses import IGNORED

NAME = "training loss against a blind guess"
# Networks at their start cost a few hundredths more than a blind guess, their outputs being small. What is trained and
# costs more by a tenth has lost what it had, or never was where a training ends.
WORSE = 1.1
# Below half of what a blind guess has, in loss or in errors, a network has learned something.
LEARNED = 0.5


def blind_guess(subject) -> float | None:
    """The loss of the shares of the classes, or of the mean of the targets; None for a loss of which it is not known.

    For the absolute loss the median would be better; the mean is near enough.
    """
    if subject.loss_name == "cross_entropy":
        labels = np.asarray(subject.labels("train"))
        if subject.weighted and labels.ndim == 1:  # weights of places count what has a label, as the shares do
            return float(stats.entropy(np.bincount(labels, weights=np.asarray(subject.train[1][1], float))))
        return float(stats.entropy(np.bincount(labels[labels != IGNORED])))
    if subject.loss_name in DIFFERENCES:
        out, (_, y) = subject.outputs("train"), subject.train
        centre = jnp.mean(subject.targets("train"), axis=0)
        return float(subject.loss.of_outputs(jnp.broadcast_to(centre, out.shape).astype(out.dtype), y))
    return None


def learned_by_loss(subject) -> bool | None:
    """Whether the training loss is below half of a blind guess's; None for a loss of which that is not known."""
    blind = blind_guess(subject)
    return None if blind is None else subject.mean_loss() < LEARNED * blind


def judge(loss: float, blind: float | None) -> Finding:
    """The training loss of the network, in times of that of the best answer that does not look at its input."""
    facts = dict(
        exact=True,
        theorem="Of all answers that do not depend on the input the shares of the classes have the least mean log "
        "loss, their entropy, and the mean of the targets the least mean square.",
        claim="foundations.bayes.conditional_expectation",
    )
    if blind is None or not blind > 0:
        return Finding(NAME, "not applicable", "What a blind guess would have is not known here.", **facts)
    said = f"The training loss is {short(loss)}, that of the best answer without a look at the input {short(blind)}."
    if loss <= WORSE * blind:
        end, mark = (" It looks at its input." if loss < blind else " It is no better than that."), "fine"
    else:
        mark = "problem"
        end = (
            " It is worse than not to look: training diverged, or these are not the weights, the inputs or the labels "
            "that it ended with."
        )
    seen = Premise("at the weights of the network as it is given", True)
    given = dict(unit="of a blind guess", premises=(seen,), headline="It is worse than a blind guess")
    return Finding(NAME, mark, said + end, loss / blind, **given, **facts)
