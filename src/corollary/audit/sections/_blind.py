"""What a blind guess costs: the training loss of the best answer that does not look at its input."""

import jax.numpy as jnp
import numpy as np
from scipy import stats

from corollary.audit._losses import DIFFERENCES
from corollary.network.losses import IGNORED


def blind_guess(subject) -> float | None:
    """The loss of the shares of the classes, or of the mean of the targets; None for a loss of which it is not known.

    For the absolute loss the median would be better; the mean is near enough.
    """
    if subject.loss_name == "cross_entropy":
        labels = np.asarray(subject.labels("train")).ravel()
        return float(stats.entropy(np.bincount(labels[labels != IGNORED])))
    if subject.loss_name in DIFFERENCES:
        out, (_, y) = subject.outputs("train"), subject.train
        centre = jnp.mean(subject.targets("train"), axis=0)
        return float(subject.loss.of_outputs(jnp.broadcast_to(centre, out.shape).astype(out.dtype), y))
    return None
