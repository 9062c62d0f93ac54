"""What is tried out on a network before it is audited: it runs on its data, outputs and loss are finite."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from corollary._text import first_line
from corollary._validate import real
from corollary.audit._cost import Cost
from corollary.audit._data import count, spelled
from corollary.audit._errors import SubjectError

FEW = 8
# at most so many numbers on the way from inputs to outputs, of which few are alive at a time, and examples in one batch
NUMBERS, EXAMPLES = 2**29, 256


def number(check, name: str, value, *limits) -> float:
    """`value` as a Python number that passes a check; words and arrays get one sentence."""
    real(name, value, "")
    return float(check(name, value, *limits))


def output_shape(apply, params, x) -> tuple:
    """The shape of the outputs for one example, without the axis of examples; one sentence if `apply` does not run."""
    few = jax.tree.map(lambda a: a[:FEW], x)
    for batch in (few, jax.tree.map(lambda a: a[:1], x)):
        out = _shape(apply, params, batch)
        if not (hasattr(out, "shape") and hasattr(out, "dtype")) or not jnp.issubdtype(out.dtype, np.floating):
            raise SubjectError(f"network must return one real array, got {_kind(out)}.")
        if out.shape[:1] != (count(batch),):
            raise SubjectError(
                f"network must return one row per example, got shape {out.shape} for {count(batch)} examples."
            )
    return out.shape[1:]


def outputs(apply, params, x, cost: Cost):
    """The outputs for all examples, in batches: memory does not grow with the data set."""
    n = count(x)
    size = int(min(n, EXAMPLES, max(1, NUMBERS // max(1, cost.numbers))))
    batches = -(-n // size)
    # the last batch is filled up with the first examples, so that one program serves all batches; they are dealt out
    # one by one, because on a CPU a convolution inside a compiled loop runs several times slower than alone
    rows = np.arange(batches * size).reshape(batches, size) % n
    if batches == 1:
        return _forward(apply, params, x)
    out = [np.asarray(_forward(apply, params, jax.tree.map(lambda a, r=r: a[r], x))) for r in rows]
    return jnp.asarray(np.concatenate(out)[:n])


def finite(name: str, out):
    """One sentence unless all outputs are finite."""
    out = np.asarray(out)
    # not all types of JAX are known to NumPy
    bad = ~np.isfinite(out if out.dtype.kind == "f" else out.astype(np.float32))
    if bad.any():
        rows = bad.reshape(bad.shape[0], -1).any(axis=1)
        raise SubjectError(
            f"the outputs must be finite, got NaN or infinity for {rows.sum()} of {rows.size} {name} examples, "
            f"first at index {int(rows.argmax())}."
        )


def no_probabilities(out, axis: int | None):
    """One sentence if the outputs are class probabilities where logits are meant: they would be normalised twice."""
    if axis is None:
        return
    out = np.asarray(out)
    if out.min() < 0:
        return
    # sums of as many roundings as there are classes
    if np.abs(out.sum(axis=axis, dtype=float) - 1).max() <= 10 * out.shape[axis] * float(jnp.finfo(out.dtype).eps):
        raise SubjectError(
            "the outputs look like class probabilities (every row sums to 1), but cross_entropy takes "
            "logits: remove the last softmax."
        )


def mean_loss(loss, out, y):
    """One sentence unless the loss of an example is a finite real number."""
    few, target = out[:FEW], jax.tree.map(lambda a: a[:FEW], y)
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
        raise SubjectError(f"network(x) failed for examples of shape {spelled(x)}: {first_line(error)}.") from error


def _kind(out) -> str:
    shape = getattr(out, "shape", None)
    return type(out).__name__ if shape is None else f"shape {tuple(shape)} and dtype {getattr(out, 'dtype', None)}"


@eqx.filter_jit
def _forward(apply, params, x):
    return apply(params, x)
