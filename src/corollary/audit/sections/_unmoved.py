"""Did training reach every layer? Weights that are exactly those of the start, though the loss has a slope there."""

from typing import NamedTuple

import jax
import numpy as np

from corollary.audit._sample import some
from corollary.audit.finding import Finding, Premise, short
from corollary.audit.sections._blind import learned_by_loss
from corollary.network.batches import count

NAME = "layers that training did not move"
# fewer of the parameters, such as biases, are no reason that nothing was learned
MUCH = 0.25
# names shown, and examples that tell whether the loss has a slope
SHOWN, EXAMPLES = 4, 256
FACTS = dict(
    theorem="A step of gradient descent moves every parameter along which the loss has a slope, by the step times that "
    "slope: what stays exactly where it was did not take part.",
    claim="optimization.quadratics.dynamics",
    exact=True,
    unit="% of the parameters",
)


class Unmoved(NamedTuple):
    """Names of arrays that are where they started though the loss has a slope along them, their share of all
    parameters, and whether the network has learned nevertheless (None: not known)."""

    names: tuple[str, ...]
    share: float
    learned: bool | None


def measure(subject) -> Unmoved | None:
    """None where the start is not known, or where nothing was trained at all."""
    if subject.initial_params is None:
        return None
    ends, _ = jax.tree_util.tree_flatten_with_path(subject.params)
    same = [np.array_equal(a, b) for (_, a), b in zip(ends, jax.tree.leaves(subject.initial_params), strict=True)]
    if all(same):
        return None
    # then it has done so without these layers
    learned = learned_by_loss(subject)
    if not any(same):
        return Unmoved((), 0.0, learned)
    # what is out of reach of the loss, such as the bias before a normalisation, cannot move
    data = some(subject.train, min(EXAMPLES, count(subject.train)), jax.random.key(0))
    slopes = jax.tree.leaves(jax.jit(jax.grad(subject.objective))(subject.initial_params, data))
    sizes = [float(np.linalg.norm(np.asarray(a, float))) for a in slopes]
    seen = float(np.finfo(subject.dtype).eps) * max(sizes)
    rows = [i for i, size in enumerate(sizes) if same[i] and size > 1e2 * seen]
    names = tuple(jax.tree_util.keystr(ends[i][0], simple=True, separator=".").removeprefix("params.") for i in rows)
    return Unmoved(names, sum(ends[i][1].size for i in rows) / subject.size, learned)


def judge(found: Unmoved) -> Finding:
    if not found.names:
        return Finding(NAME, "fine", "Training moved every layer that the loss depends on.", 0.0, **FACTS)
    more = len(found.names) - SHOWN
    names = ", ".join(found.names[:SHOWN]) + (f" and {more} more" if more > 0 else "")
    verb, they = ("are", "they were") if len(found.names) > 1 else ("is", "it was")
    text = (
        f"{names} {verb} exactly as at the start, {short(100 * found.share)} % of all parameters, though the loss has "
        f"a slope there and other layers moved: {they} left out of the training. If that is meant, say so by "
        "trainable=."
    )
    sloped = Premise("the loss has a slope along them at the start", True)
    mark = "look" if found.learned or found.share < MUCH else "problem"
    headline = f"Training never moved {found.names[0] if len(found.names) == 1 else f'{len(found.names)} arrays'}"
    return Finding(NAME, mark, text, 100 * found.share, premises=(sloped,), headline=headline, **FACTS)
