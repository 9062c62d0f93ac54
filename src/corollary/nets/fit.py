"""Training for hours: the steps of `train`, in stretches, with progress, early stop, and a file to go on from.

```python
result = fit(model, loss, (x, y), optax.adamw(3e-4), steps=10_000, batch=64, key=key,
             measure=lambda model: loss(model, *validation), patience=5, checkpoint="model.ckpt")
```

Interrupted and called again with the same arguments it goes on where the file is, and ends with the very same bits.
"""

import hashlib
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
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from corollary._validate import whole
from corollary.nets import _step
from corollary.nets._checkpoint import load_checkpoint, save_checkpoint
from corollary.nets.training import Trained


class _Run(NamedTuple):
    """Everything that a stretch of steps changes, and the best that was seen."""

    progress: _step.Progress
    order: Any  # of this epoch's examples
    best: Any  # params and state
    best_value: Any
    waited: Any  # looks since then


def fit(
    model,
    loss: Callable,
    data: tuple,
    optimiser: optax.GradientTransformation,
    *,
    steps: int,
    key,
    batch: int | None = None,
    stochastic: bool = False,
    state=None,
    measure: Callable | None = None,
    every: int = 100,
    patience: int | None = None,
    checkpoint: str | Path | None = None,
    progress: bool = True,
    trainable=eqx.is_inexact_array,
) -> Trained:
    """Take `steps` steps of `optimiser` down the gradient of `loss(model, *examples)`.

    With `batch` every example is seen once an epoch, in an order that is new each time; what a whole number of batches
    leaves over is left out of that epoch. Without, every step sees all of `data`. A `stochastic` loss is called with
    `key=`, fresh in every step. With a `state` (batch statistics, say) the loss is `loss(model, state, *examples)` and
    returns its value and the next state.

    After every `every` steps `measure(model)`, or `measure(model, state)`, is recorded and the run is saved to
    `checkpoint`. With `patience`, `measure` is one number, the smaller the better: after so many looks without a better
    one training ends, and the model of the best look is returned. A loss that is not finite ends training with an
    error. `train` is the same as a pure function, for ensembles.
    """
    _step.checked_functions(optimiser, loss=loss, measure=measure)
    data, steps, every = _step.checked_examples(data), whole("steps", steps), whole("every", every)
    if batch is not None:
        if not data:
            raise ValueError("batch needs data to take examples from, got none.")
        batch = whole("batch", batch, 1, data[0].shape[0])
    if patience is not None:
        patience = whole("patience", patience)
        if measure is None:
            raise ValueError("patience needs a measure: the number that is to become smaller.")
    params, static = _step.trainable_part(model, trainable)
    look = _looker(measure, static, state is not None)
    plan = _Plan(loss, optimiser, stochastic, state is not None, batch)
    run = _start(params, state, optimiser, None if batch is None else len(data[0]))
    done, losses, record = 0, [], [look(run.progress)]
    number = _scalar(record[0]) if patience is not None else np.inf
    run = run._replace(best_value=np.asarray(number))

    path = None if checkpoint is None else Path(checkpoint)
    header = {} if path is None else {"batch": batch, "every": every, "digest": _digest(key, data)}
    if path is not None and path.exists():
        done, run, losses, record = _resume(path, header, run, record[0])
    with _bar(steps, progress) as tell:
        tell(done, losses, record)
        while done < steps and (patience is None or int(run.waited) < patience):
            last = min(done + every, steps)
            bounds = jnp.asarray(done), jnp.asarray(last)
            moved, order, values = _stretch(plan, static, data, key, run.progress, run.order, *bounds, every)
            run, values = run._replace(progress=moved, order=order), np.asarray(values, np.float64)[: last - done]
            if not np.isfinite(values).all():
                step = done + int(np.argmin(np.isfinite(values)))
                raise FloatingPointError(f"the loss is not finite at step {step}; a smaller learning rate may help.")
            losses.append(values)
            record.append(look(run.progress))
            done = last
            if patience is not None:
                run = _judge(run, _scalar(record[-1]))
            if path is not None:
                arrays = (run, np.concatenate(losses), _stacked(record))
                save_checkpoint(path, header | {"done": done, "looks": len(record)}, arrays)
            tell(done, losses, record)
    params, state = run.best if patience is not None else (run.progress.params, run.progress.state)
    together = jnp.asarray(np.concatenate(losses)) if losses else jnp.zeros(0)
    return Trained(eqx.combine(params, static), together, None if measure is None else _stacked(record), state)


class _Plan(NamedTuple):
    """What the compiled stretch depends on; compared by what it holds, so that calls share their programs."""

    loss: Callable
    optimiser: optax.GradientTransformation
    stochastic: bool
    stateful: bool
    batch: int | None


def _start(params, state, optimiser, n) -> _Run:
    order = None if n is None else jnp.arange(n)
    return _Run(_step.Progress(params, optimiser.init(params), state), order, (params, state), np.inf, np.asarray(0))


@eqx.filter_jit
def _stretch(plan, static, data, key, progress, order, first, last, every):
    """Steps `first` to `last`, at most `every` of them: one program for all stretches."""
    descend = _step.descent(plan.loss, static, plan.optimiser, stochastic=plan.stochastic, stateful=plan.stateful)
    batches = 1 if plan.batch is None else data[0].shape[0] // plan.batch

    def advance(step, carry):
        progress, order, values = carry
        order_key, loss_key = jax.random.split(jax.random.fold_in(key, step))
        examples = data
        if plan.batch is not None:
            position = step % batches
            order = lax.cond(position == 0, lambda: jax.random.permutation(order_key, order.shape[0]), lambda: order)
            chosen = lax.dynamic_slice_in_dim(order, position * plan.batch, plan.batch)
            examples = tuple(a[chosen] for a in data)
        progress, value = descend(progress, examples, loss_key)
        return progress, order, values.at[step - first].set(value)

    kind = jax.eval_shape(descend, progress, tuple(a[: plan.batch] for a in data), key)[1]
    start = progress, order, jnp.zeros(every, kind.dtype)
    return lax.fori_loop(first, last, advance, start)


def _looker(measure, static, stateful):
    if measure is None:
        return lambda progress: None
    compiled = eqx.filter_jit(measure)

    def look(progress):
        model = eqx.combine(progress.params, static)
        return jax.tree.map(np.asarray, compiled(model, progress.state) if stateful else compiled(model))

    return look


def _judge(run: _Run, value: float) -> _Run:
    if value < run.best_value:
        best = (run.progress.params, run.progress.state)
        return run._replace(best=best, best_value=np.asarray(value), waited=np.asarray(0))
    return run._replace(waited=run.waited + 1)


def _scalar(value) -> float:
    if np.shape(value) != ():
        raise ValueError(f"measure must return one number for patience, got shape {np.shape(value)}.")
    return float(value)


def _digest(key, data) -> str:
    """Of what decides the run beside the arrays in the file: the key and the data."""
    digest = hashlib.sha256(np.asarray(jax.random.key_data(key)).tobytes())
    for array in data:
        digest.update(f"{array.shape} {array.dtype}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:16]


def _resume(path, header, run, first):
    def like(found):
        looks = jax.tree.map(lambda a: np.zeros((found["looks"], *a.shape), a.dtype), first)
        return run, np.zeros(found["done"], np.float64), looks

    found, (run, losses, looks) = load_checkpoint(path, like)
    for name, what in (("batch", "batches of"), ("every", "stretches of"), ("digest", "key and data with the digest")):
        if found[name] != header[name]:
            raise ValueError(f"checkpoint {path} is of a run with {what} {found[name]}, not {header[name]}.")
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
