"""Training for hours: the steps of `train`, in stretches, with progress, early stop, and a file to go on from.

```python
result = fit(network, "cross_entropy", (x, y), optax.adamw(3e-4), steps=10_000, batch_size=64, key=key,
             measure=lambda network: empirical_risk(network, "cross_entropy", validation), patience=5,
             checkpoint="network.ckpt")
```

Interrupted and called again with the same arguments it goes on where the file is, and ends with the very same bits.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax
from jaxtyping import PRNGKeyArray, PyTree
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from corollary._types import LossLike, NetworkLike
from corollary._validate import whole
from corollary.nets import _step
from corollary.nets._checkpoint import CheckpointOfAnotherRun, load_checkpoint, save_checkpoint
from corollary.nets._fingerprint import differences, fingerprint
from corollary.nets.training import Trained
from corollary.network.batches import count


class _Run(NamedTuple):
    """Everything that a stretch of steps changes, and the best that was seen."""

    progress: _step.Progress
    order: Any  # of this epoch's examples
    best: Any  # params and state
    best_value: Any
    waited: Any  # looks since then


def fit(
    network: NetworkLike,
    loss: LossLike,
    data: PyTree,
    optimiser: optax.GradientTransformation,
    *,
    steps: int,
    key: PRNGKeyArray | None = None,
    batch_size: int | None = None,
    state: PyTree | None = None,
    measure: Callable | None = None,
    every: int = 100,
    patience: int | None = None,
    checkpoint: str | Path | None = None,
    progress: bool = True,
    reduction: str = "mean",
    trainable: PyTree | None = None,
    watch: Any = None,
) -> Trained:
    """Take `steps` steps of `optimiser` down the gradient of the loss.

    `network`, `loss`, `data`, `reduction`, `trainable` and `key` are those of `train`, which is the same as a pure
    function, for ensembles. With `batch_size` every example is seen once per epoch, in an order that is new each time;
    what a whole number of batches leaves over is left out of that epoch. Without, every step sees all of `data`. With a
    `state` (batch statistics, say) the loss is a `BatchLoss` whose function takes `state=` and returns the pair of its
    value and the next state.

    After every `every` steps `measure(network)`, or `measure(network, state)`, is recorded and the run is saved to
    `checkpoint`; a file of another run (network, optimiser, loss, data, key, batch size) is refused. With `patience`,
    `measure` is one number, the smaller the better: after so many looks without a better one training ends, and the
    network of the best look is returned. A loss that is not finite ends training with an error. `watch` is a
    `corollary.audit.watch`, which follows the training without changing a bit of it.

    >>> import jax, optax
    >>> from corollary import nets
    >>> x = jax.random.normal(jax.random.key(0), (100, 2))
    >>> y = (x[:, 0] * x[:, 1] > 0).astype(int)
    >>> network = nets.MLP((2, 16, 2), nets.tanh, key=jax.random.key(1))
    >>> trained = nets.fit(network, "cross_entropy", (x, y), optax.adam(0.1), steps=100, progress=False)
    >>> bool(trained.losses[-1] < 0.5 * trained.losses[0])
    True
    """
    steps, every = whole("steps", steps), whole("every", every)
    task = _step.checked_task(
        network, loss, data, optimiser, reduction=reduction, trainable=trainable, batch_size=batch_size, key=key
    )
    if batch_size is not None:
        whole("batch_size", batch_size, 1, count(task.data))
    if state is not None and "state" not in getattr(task.loss, "names", ()):
        raise TypeError("a state needs a BatchLoss whose function takes state= and returns its value and the next one.")
    if patience is not None:
        patience = whole("patience", patience)
        if measure is None:
            raise ValueError("patience needs a measure: the number that is to become smaller.")
    if watch is not None and not (hasattr(watch, "pause") and hasattr(watch, "after")):
        raise TypeError(f"watch must be a corollary.audit.watch of this training, got {type(watch).__name__}.")
    look = _looker(_step.checked_measure(measure), task.parts, state is not None)
    run = _start(task, state)
    done, losses, record = 0, [], [look(run.progress)]
    number = _scalar(record[0]) if patience is not None else np.inf
    run = run._replace(best_value=np.asarray(number))

    path = None if checkpoint is None else Path(checkpoint)
    header = {} if path is None else fingerprint(task, key, state, every)
    if path is not None and path.exists():
        done, run, losses, record = _resume(path, header, run, record[0])
    key = jax.random.key(0) if key is None else key  # not used then
    if watch is not None and done < steps:
        at = jnp.asarray(done)
        # a stretch without a step takes what it costs to stop
        watch.stops(lambda: jax.block_until_ready(_stretch(task, key, run.progress, run.order, at, at, every)))
    with _bar(steps, progress) as tell:
        tell(done, losses, record)
        while done < steps and (patience is None or int(run.waited) < patience):
            last = min(done + every, steps)
            run, values = _advance(task, key, run, done, last, every, watch)
            if not np.isfinite(values).all():
                step = done + int(np.argmin(np.isfinite(values)))
                cause = "a smaller learning rate may help" if step else "it is so before the first, with these data"
                raise FloatingPointError(f"the loss is not finite at step {step}; {cause}.")
            losses.append(values)
            record.append(look(run.progress))
            done = last
            if patience is not None:
                run = _judge(run, _scalar(record[-1]))
            if path is not None:
                arrays = (run, np.concatenate(losses), _stacked(record))
                save_checkpoint(path, header | {"done": done, "looks": len(record)}, arrays)
            tell(done, losses, record)
    if watch is not None:
        watch.save()
    params, state = run.best if patience is not None else (run.progress.point, run.progress.state)
    together = jnp.asarray(np.concatenate(losses)) if losses else jnp.zeros(0)
    return Trained(eqx.combine(params, network), together, None if measure is None else _stacked(record), state)


def _start(task, state) -> _Run:
    params = task.parts.params
    order = None if task.batch_size is None else jnp.arange(count(task.data))
    progress = _step.Progress(params, task.optimiser.init(params), state)
    return _Run(progress, order, (params, state), np.inf, np.asarray(0))


def _advance(task, key, run, first, last, every, watch):
    """Steps `first` to `last`, in pieces where someone watches: batches and noise depend on the step alone."""
    pieces = []
    while first < last:
        stop = last if watch is None else min(last, first + watch.pause(first))
        bounds = jnp.asarray(first), jnp.asarray(stop)
        moved, order, values = _stretch(task, key, run.progress, run.order, *bounds, every)
        run = run._replace(progress=moved, order=order)
        pieces.append(np.asarray(values, np.float64)[: stop - first])
        if watch is not None:
            watch.after(stop, task.parts.join(moved.point), pieces[-1])
        first = stop
    return run, np.concatenate(pieces)


@eqx.filter_jit
def _stretch(task, key, progress, order, first, last, every):
    """Steps `first` to `last`, at most `every` of them: one program for all stretches."""
    descend, size = _step.descent(task, stateful=progress.state is not None), task.batch_size
    batches = 1 if size is None else count(task.data) // size

    def advance(step, carry):
        progress, order, values = carry
        order_key, loss_key = jax.random.split(jax.random.fold_in(key, step))
        batch = task.data
        if size is not None:
            position = step % batches
            order = lax.cond(position == 0, lambda: jax.random.permutation(order_key, order.shape[0]), lambda: order)
            chosen = lax.dynamic_slice_in_dim(order, position * size, size)
            batch = jax.tree.map(lambda a: a[chosen], task.data)
        progress, value = descend(progress, batch, loss_key)
        return progress, order, values.at[step - first].set(value)

    some = task.data if size is None else jax.tree.map(lambda a: a[:size], task.data)
    kind = jax.eval_shape(descend, progress, some, key)[1]
    start = progress, order, jnp.zeros(every, kind.dtype)
    return lax.fori_loop(first, last, advance, start)


def _looker(measure, parts, stateful):
    if measure is None:
        return lambda progress: None

    def look(progress):
        network = parts.join(progress.point)
        return jax.tree.map(np.asarray, _measured(measure, network, progress.state if stateful else None))

    return look


@eqx.filter_jit
def _measured(measure, network, state):
    return measure(network) if state is None else measure(network, state)


def _judge(run: _Run, value: float) -> _Run:
    if value < run.best_value:
        best = (run.progress.point, run.progress.state)
        return run._replace(best=best, best_value=np.asarray(value), waited=np.asarray(0))
    return run._replace(waited=run.waited + 1)


def _scalar(value) -> float:
    if np.shape(value) != ():
        raise ValueError(f"measure must return one number for patience, got shape {np.shape(value)}.")
    return float(value)


def _resume(path, header, run, first):
    def like(found):
        if names := differences(found, header):
            raise CheckpointOfAnotherRun(
                f"checkpoint {path} is of a run with another {', '.join(names)}: give the arguments of that run, or "
                "another file."
            )
        looks = jax.tree.map(lambda a: np.zeros((found["looks"], *a.shape), a.dtype), first)
        return run, np.zeros(found["done"], np.float64), looks

    found, (run, losses, looks) = load_checkpoint(path, like)
    record = [jax.tree.map(lambda a, i=i: a[i], looks) for i in range(found["looks"])]
    return found["done"], run, [losses], record


def _stacked(record):
    return jax.tree.map(lambda *a: np.stack(a), *record)


def _bar(steps, wanted):
    if not wanted:
        return nullcontext(lambda *_: None)
    return _Bar(steps)


class _Bar:
    def __init__(self, steps):
        columns = TextColumn("{task.completed}/{task.total} steps"), BarColumn(), TextColumn("{task.description}")
        self.bar = Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True))
        self.task = self.bar.add_task("", total=steps)

    def __enter__(self):
        self.bar.__enter__()
        return self.tell

    def __exit__(self, *error):
        self.bar.__exit__(*error)

    def tell(self, done, losses, record):
        said = f"loss {losses[-1].mean():.4g}" if losses else "compiling"
        numbers = [float(a) for a in jax.tree.leaves(record[-1]) if np.shape(a) == ()]
        self.bar.update(self.task, completed=done, description="  ".join([said, *(f"{a:.4g}" for a in numbers)]))
