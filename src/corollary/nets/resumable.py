"""Loops of one's own with a file to go on from, as `fit` has one.

```python
end, losses = resumable(stretch, start, steps=10_000, every=100, checkpoint="game.ckpt",
                        arguments={"data": data, "optimiser": optimiser, "key": key})
```

Interrupted and called again with the same arguments it goes on where the file is, and ends with the very same bits, as
long as `stretch` draws what is random from a key and the number of the step.
"""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from corollary._show import shown
from corollary._validate import whole
from corollary.nets._checkpoint import CheckpointOfAnotherRun, load_checkpoint, save_checkpoint
from corollary.network._code import digest

_PLAIN = bool | int | float | str | None


class Resumed(NamedTuple):
    """What a loop has come to, and what its stretches returned, one after the other along a first axis."""

    end: Any
    values: Any

    __repr__ = shown


def resumable(
    stretch: Callable, start: PyTree, *, steps: int, every: int, checkpoint: str | Path, arguments: Mapping
) -> Resumed:
    """`stretch(progress, first)` from `start`, `every` steps at a time, kept in the file `checkpoint` after each.

    `stretch` takes the steps `first` to `first + every - 1`, and returns the progress after them and a pytree of
    arrays; `start` is a pytree of arrays, and `every` divides `steps`. `arguments` are what the run is a function of,
    by their names: arrays, pytrees of them, functions, plain values. A file of a run with others is refused by these
    names. Functions are compared by their code, and not where Python or a library has another version.

    >>> import tempfile
    >>> add = lambda x, first: (x + first, x)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run = resumable(add, jnp.zeros(()), steps=6, every=2, checkpoint=folder + "/sum", arguments={"add": add})
    >>> float(run.end), run.values.tolist()
    (6.0, [0.0, 0.0, 2.0])
    """
    if not callable(stretch):
        raise TypeError(f"stretch must be a function of progress and a step, got {type(stretch).__name__}.")
    if not isinstance(arguments, Mapping):
        raise TypeError(f"arguments must be a mapping from names to values, got {type(arguments).__name__}.")
    steps, every, path = whole("steps", steps), whole("every", every), Path(checkpoint)
    if steps % every:
        raise ValueError(f"every must divide steps, got {every} and {steps}.")
    if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves((start, dict(arguments)))):
        raise TypeError("a checkpoint is of one run: it cannot be kept inside jit or vmap.")
    header = {"versions": _versions()} | {str(name): _seen(value) for name, value in arguments.items()}
    header["every"] = every
    progress, found, done = start, [], 0
    if path.exists():
        progress, values, done = _loaded(path, header, stretch, start, every)
        found = [values]
    while done < steps:
        progress, value = stretch(progress, jnp.asarray(done))
        found.append(jax.tree.map(lambda a: np.asarray(a)[None], value))
        done += every
        found = [jax.tree.map(lambda *a: np.concatenate(a), *found)]
        save_checkpoint(path, header | {"done": done}, (progress, found[0]))
    return Resumed(progress, jax.tree.map(jnp.asarray, found[0]))


def _loaded(path, header, stretch, start, every):
    _, value = eqx.filter_eval_shape(stretch, start, jnp.asarray(0))

    def like(found):
        if names := _differences(found, header):
            raise CheckpointOfAnotherRun(
                f"checkpoint {path} is of a run with another {', '.join(names)}: give the arguments of that run, or "
                "another file."
            )
        turns = found["done"] // every
        return start, jax.tree.map(lambda a: np.zeros((turns, *a.shape), a.dtype), value)

    found, (progress, values) = load_checkpoint(path, like)
    return progress, values, found["done"]


def _differences(found: dict, wanted: dict) -> list[str]:
    """The names of arguments in which two runs differ, with their values where these are plain."""
    same_versions, names = found.get("versions") == wanted["versions"], []
    for name in (n for n in wanted if n != "versions"):
        a, b = found.get(name), wanted[name]
        if isinstance(a, dict) and isinstance(b, dict):
            different = a["arrays"] != b["arrays"] or (same_versions and a["functions"] != b["functions"])
            names += [name] if different else []
        elif a != b:
            plain = isinstance(a, _PLAIN) and isinstance(b, _PLAIN)
            names.append(f"{name} ({a}, not {b})" if plain else name)
    return names


def _seen(value):
    """A plain value as it is; of anything else what its arrays hold and what its functions do."""
    if isinstance(value, _PLAIN):
        return value
    arrays, functions = hashlib.sha256(), hashlib.sha256()
    for where, leaf in jax.tree_util.tree_leaves_with_path(value):
        name = jax.tree_util.keystr(where)
        if callable(leaf):
            functions.update(f"{name} {digest(leaf)}".encode())
            continue
        if isinstance(leaf, jax.ShapeDtypeStruct | str):
            arrays.update(f"{name} {leaf}".encode())
            continue
        leaf = np.asarray(jax.random.key_data(leaf) if _is_key(leaf) else leaf)
        arrays.update(f"{name} {leaf.shape} {leaf.dtype}".encode())
        arrays.update(np.ascontiguousarray(leaf).tobytes())
    return {"arrays": arrays.hexdigest()[:16], "functions": functions.hexdigest()[:16]}


def _is_key(leaf) -> bool:
    return isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _versions() -> str:
    return " ".join([platform.python_version(), *(version(name) for name in ("jax", "optax", "equinox"))])
