"""What a run of `fit` is a function of, in a few words for the head of its file: another run must not go on from it.

Functions (the loss, the optimiser) are compared by their code and by what they make of fixed numbers; by the latter
alone where Python or a library has another version than the one that wrote the file.
"""

import hashlib
import platform
from importlib.metadata import version

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from corollary.nets._step import Task
from corollary.network._code import digest
from corollary.network.loss import BatchLoss

TRIAL_STEPS = 3
#: What is compared by trial, and the arguments that its numbers depend on.
FUNCTIONS = {"optimiser": {"network"}, "loss": {"network", "data", "batch_size"}}


def fingerprint(task: Task, key, state, every: int) -> dict:
    """Entries by the names of arguments; `trial` holds numbers, everything else is compared as it is."""
    loss = task.loss
    code = digest(loss.function)
    value, updates = _trial(task, state)
    return {
        "versions": " ".join([platform.python_version(), *(version(name) for name in ("jax", "optax", "equinox"))]),
        "network": _arrays_digest(jax.tree.map(_shape, eqx.filter((task.parts, state), eqx.is_array_like))),
        "optimiser": digest(task.optimiser.init) + digest(task.optimiser.update),
        "loss": code if isinstance(loss, BatchLoss) else f"{code} {loss.reduction}",
        "data": _arrays_digest(task.data),
        "key": None if key is None else _arrays_digest(jax.random.key_data(key)),
        "batch_size": task.batch_size,
        "every": every,
        "trial": {"loss": float(value), "optimiser": [float(a) for a in updates]},
    }


def differences(found: dict, wanted: dict) -> list[str]:
    """The arguments in which two runs differ, with their values where these say something."""
    other = {name for name in wanted if found.get(name) != wanted[name]}
    if "versions" in other:
        other -= FUNCTIONS.keys()
    for name, rests_on in FUNCTIONS.items():
        # numbers of another network or of other data say nothing of the function
        if not other & rests_on and not _close(found["trial"][name], wanted["trial"][name]):
            other.add(name)
    plain = {name: f" ({found.get(name)}, not {wanted[name]})" for name in ("batch_size", "every")}
    return [name + plain.get(name, "") for name in wanted if name in other - {"versions", "trial"}]


def _close(a, b) -> bool:
    # half of the digits of single precision: another device rounds otherwise, another loss does more than that
    return np.allclose(a, b, rtol=3e-4, atol=1e-30, equal_nan=True)


@eqx.filter_jit
def _trial(task: Task, state):
    """The loss on the first examples at fixed parameters, and sums over the updates for a few fixed gradients."""
    params = _fixed_numbers(task.parts.params, 0)
    batch = task.data if task.batch_size is None else jax.tree.map(lambda a: a[: task.batch_size], task.data)
    key = jax.random.key(0) if task.keyed else None
    found = task.loss(task.parts.join(params), batch, key=key, state=state)
    value = found if state is None else found[0]

    memory, sums = task.optimiser.init(params), []
    for step in range(TRIAL_STEPS):
        slope = _fixed_numbers(params, step + 1)
        updates, memory = task.optimiser.update(
            slope,
            memory,
            params,
            value=jnp.ones_like(value),
            gradient_fn=lambda params: _fixed_numbers(params, 2 * TRIAL_STEPS),
            full_gradient_fn=lambda params: _fixed_numbers(params, 3 * TRIAL_STEPS),
        )
        sums.append(sum(jnp.sum(jnp.abs(u)) for u in jax.tree.leaves(updates)))
    return value, sums


def _fixed_numbers(tree, which: int):
    def leaf(a):
        return (0.1 * jnp.cos(jnp.arange(a.size) + which)).reshape(a.shape).astype(a.dtype)

    return jax.tree.map(leaf, tree)


def _shape(array):
    return np.asarray(f"{np.shape(array)} {jnp.result_type(array)}")


def _arrays_digest(tree) -> str:
    found = hashlib.sha256()
    for path, array in jax.tree_util.tree_leaves_with_path(tree):
        array = np.asarray(array)
        found.update(f"{jax.tree_util.keystr(path)} {array.shape} {array.dtype}".encode())
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()[:16]
