"""What is tried out on a network before it is audited: that it runs, that it is finite, that examples are on their own.

The audit takes means, kernels and gradients of single examples. All of that presumes that the output for an example is
a function of that example, which it is not under batch normalisation in training mode or dropout.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from corollary._engine.cpu_ready import cpu_ready
from corollary._validate import real
from corollary.audit._errors import SubjectError, first_line

FEW = 8
# activations are many times the size of the inputs: at most so many numbers, and examples, in one batch
NUMBERS, EXAMPLES = 2**22, 256


def parameters(name: str, params):
    """`params` with every leaf a finite floating-point array."""

    def leaf(path, value):
        where = name + jax.tree_util.keystr(path)
        dtype = getattr(value, "dtype", None)
        if dtype is None or not jnp.issubdtype(dtype, np.floating):
            kind = type(value).__name__ if dtype is None else dtype
            raise SubjectError(f"{where} must be a floating-point array, got {kind}: what is fixed belongs into apply.")
        return real(where, value)

    params = jax.tree_util.tree_map_with_path(leaf, params)
    if not jax.tree.leaves(params):
        raise SubjectError(f"{name} must hold at least one floating-point array.")
    return params


def like(name: str, candidate, params):
    """One sentence unless `candidate` has the structure and the shapes of `params`."""
    ours, theirs = jax.tree.structure(params), jax.tree.structure(candidate)
    if ours != theirs:
        raise SubjectError(f"{name} must have the structure of params, {ours}, got {theirs}.")
    pairs = zip(jax.tree_util.tree_leaves_with_path(params), jax.tree.leaves(candidate), strict=True)
    for (path, a), b in pairs:
        if a.shape != jnp.shape(b):
            where = name + jax.tree_util.keystr(path)
            raise SubjectError(f"{where} must have shape {a.shape} as in params, got {jnp.shape(b)}.")
    return candidate


def output_shape(apply, params, x) -> tuple:
    """The shape of the outputs for one example, without the axis of examples; one sentence if `apply` does not run."""
    few = x[:FEW]
    for batch in (few, few[:1]):
        out = _shape(apply, params, batch)
        if not (hasattr(out, "shape") and hasattr(out, "dtype")) or not jnp.issubdtype(out.dtype, np.floating):
            raise SubjectError(f"apply must return one real array of outputs, got {_kind(out)}.")
        if out.shape[:1] != batch.shape[:1]:
            raise SubjectError(
                f"apply must return one row per example, got shape {out.shape} for {batch.shape[0]} examples."
            )
    return out.shape[1:]


def outputs(apply, params, x):
    """The outputs for all examples, in batches: memory does not grow with the data set."""
    n = x.shape[0]
    size = min(n, EXAMPLES, max(1, NUMBERS // max(1, x[0].size)))
    count = -(-n // size)
    # the last batch is filled up with the first examples, so that one program serves all batches; they are dealt out
    # one by one, because on a processor a convolution inside a compiled loop runs several times slower than alone
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


def independent(apply, params, x):
    """One sentence if the output for an example depends on the batch that it comes in.

    A few examples together and each apart may differ by rounding alone. How much that is in this network, where
    rounding may grow from layer to layer, is measured: the parameters are moved by a few units in the last place.
    """
    with jax.default_matmul_precision("highest"):
        together, apart, moved = map(np.asarray, _together_and_apart(apply, params, x[:FEW]))
    together, apart, moved = (a.astype(float) for a in (together, apart, moved))
    eps = float(jnp.finfo(jnp.result_type(*jax.tree.leaves(params))).eps)
    # sums in another order, some hundred terms deep: 1e3 of these units
    rounding = 1e3 * max(eps * np.abs(together).max(), np.abs(moved - together).max())
    if not np.abs(together - apart).max() <= rounding:
        raise SubjectError(
            "the output for an example changes with the other examples in its batch or its place there, as under batch "
            "normalisation in training mode or dropout: give the network in inference mode."
        )


def no_probabilities(out):
    """One sentence if the outputs are class probabilities where logits are meant: they would be normalised twice."""
    out = np.asarray(out)
    if out.ndim != 2 or out.shape[1] == 1 or out.min() < 0:
        return
    # sums of as many roundings as there are classes
    if np.abs(out.sum(axis=1, dtype=float) - 1).max() <= 10 * out.shape[1] * float(jnp.finfo(out.dtype).eps):
        raise SubjectError(
            "the outputs are class probabilities, each row sums to 1, and cross_entropy takes logits: leave out the "
            "last softmax."
        )


def mean_loss(loss, out, y):
    """One sentence unless `loss(outputs, y)` is a finite real scalar, and the mean of the losses of the examples."""
    few, target = out[:FEW], y[:FEW]
    try:
        together = loss(few, target)
    except Exception as error:
        raise SubjectError(f"loss(outputs, y) failed on {few.shape[0]} examples: {first_line(error)}.") from error
    if jnp.shape(together) != () or not jnp.issubdtype(jnp.result_type(together), np.floating):
        raise SubjectError(f"loss must return a real scalar, the mean over the examples, got {_kind(together)}.")
    apart = np.asarray(jax.lax.map(lambda one: loss(one[0][None], one[1][None]), (few, target)), float)
    if not np.isfinite(float(together)):
        raise SubjectError(f"loss must be finite on the training data, got {float(together)}.")
    rounding = 1e3 * float(jnp.finfo(few.dtype).eps) * np.abs(apart).max()
    if abs(float(together) - apart.mean()) > rounding:
        raise SubjectError("loss must be the mean of the losses of the examples: it is a sum, or mixes the examples.")


def _shape(apply, params, x):
    try:
        return jax.eval_shape(apply, params, x)
    except Exception as error:
        raise SubjectError(
            f"apply(params, x) failed on {x.shape[0]} examples of shape {x.shape[1:]}: {first_line(error)}."
        ) from error


def _kind(out) -> str:
    shape = getattr(out, "shape", None)
    return type(out).__name__ if shape is None else f"shape {tuple(shape)} and dtype {getattr(out, 'dtype', None)}"


@partial(jax.jit, static_argnums=0)
def _forward(apply, params, x):
    return apply(params, x)


@partial(jax.jit, static_argnums=0)
def _together_and_apart(apply, params, few):
    leaves, tree = jax.tree.flatten(params)
    keys = jax.random.split(jax.random.key(0), len(leaves))
    moved = [
        (p * (1 + 4 * jnp.finfo(p.dtype).eps * jax.random.rademacher(k, p.shape, p.dtype))).astype(p.dtype)
        for p, k in zip(leaves, keys, strict=True)
    ]
    apart = jax.lax.map(cpu_ready(lambda one: apply(params, one[None])[0]), few)
    return apply(params, few), apart, apply(jax.tree.unflatten(tree, moved), few)
