"""What is tried out on a network before it is audited: it runs on its data, outputs and loss are finite."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from corollary.audit._errors import SubjectError
from corollary.network.apart import first_line

FEW = 8
# activations are many times the size of the inputs: at most so many numbers, and examples, in one batch
NUMBERS, EXAMPLES = 2**22, 256


def output_shape(apply, params, x) -> tuple:
    """The shape of the outputs for one example, without the axis of examples; one sentence if `apply` does not run."""
    few = x[:FEW]
    for batch in (few, few[:1]):
        out = _shape(apply, params, batch)
        if not (hasattr(out, "shape") and hasattr(out, "dtype")) or not jnp.issubdtype(out.dtype, np.floating):
            raise SubjectError(f"network must return one real array, got {_kind(out)}.")
        if out.shape[:1] != batch.shape[:1]:
            raise SubjectError(
                f"network must return one row per example, got shape {out.shape} for {batch.shape[0]} examples."
            )
    return out.shape[1:]


def outputs(apply, params, x):
    """The outputs for all examples, in batches: memory does not grow with the data set."""
    n = x.shape[0]
    size = min(n, EXAMPLES, max(1, NUMBERS // max(1, x[0].size)))
    count = -(-n // size)
    # the last batch is filled up with the first examples, so that one program serves all batches; they are dealt out
    # one by one, because on a CPU a convolution inside a compiled loop runs several times slower than alone
    rows = np.arange(count * size).reshape(count, size) % n
    return jnp.concatenate([_forward(apply, params, x[batch] if count > 1 else x) for batch in rows])[:n]


def finite(name: str, out):
    """One sentence unless all outputs are finite."""
    bad = ~np.isfinite(np.asarray(out, float))
    if bad.any():
        rows = bad.reshape(bad.shape[0], -1).any(axis=1)
        raise SubjectError(
            f"the outputs must be finite, got NaN or infinity for {rows.sum()} of {rows.size} {name} examples, "
            f"first at index {int(rows.argmax())}."
        )


def no_probabilities(out):
    """One sentence if the outputs are class probabilities where logits are meant: they would be normalised twice."""
    out = np.asarray(out)
    if out.ndim != 2 or out.shape[1] == 1 or out.min() < 0:
        return
    # sums of as many roundings as there are classes
    if np.abs(out.sum(axis=1, dtype=float) - 1).max() <= 10 * out.shape[1] * float(jnp.finfo(out.dtype).eps):
        raise SubjectError(
            "the outputs look like class probabilities (every row sums to 1), but cross_entropy takes "
            "logits: remove the last softmax."
        )


def mean_loss(loss, out, y):
    """One sentence unless the loss of an example is a finite real number."""
    few, target = out[:FEW], y[:FEW]
    try:
        together = loss.of_outputs(few, target)
    except Exception as error:
        raise SubjectError(f"loss(output, target) failed: {first_line(error)}.") from error
    if not jnp.issubdtype(jnp.result_type(together), np.floating):
        raise SubjectError(f"loss must return a real number, got {_kind(together)}.")
    if not np.isfinite(float(together)):
        raise SubjectError(f"loss must be finite on the training data, got {float(together)}.")


def _shape(apply, params, x):
    try:
        return eqx.filter_eval_shape(apply, params, x)
    except Exception as error:
        raise SubjectError(f"network(x) failed for examples of shape {x.shape[1:]}: {first_line(error)}.") from error


def _kind(out) -> str:
    shape = getattr(out, "shape", None)
    return type(out).__name__ if shape is None else f"shape {tuple(shape)} and dtype {getattr(out, 'dtype', None)}"


@eqx.filter_jit
def _forward(apply, params, x):
    return apply(params, x)
