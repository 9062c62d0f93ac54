"""A PyTorch module as it is called: its inputs in batches, its outputs by name, in inference mode for a while."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from corollary._text import first_line
from corollary.network._aten.export import named

FEW = 3


def arrays(example) -> dict:
    """The inputs of one example: by number those that come in order, by name those of a dictionary."""
    if isinstance(example, Mapping):
        places = dict(example)
    else:
        places = dict(enumerate(example if isinstance(example, tuple | list) else (example,)))
    if not places or not all(isinstance(place, int | str) for place in places):
        raise ValueError("example must be an array, a tuple of arrays, or a dictionary of arrays by name.")
    return {place: _array(place, value) for place, value in places.items()}


def _array(place, value):
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        value = (value.float() if value.is_floating_point() and value.element_size() < 4 else value).numpy()
    try:
        value = np.asarray(value)
    except ValueError:
        value = np.asarray(value, object)
    if value.dtype.kind not in "fiub":
        where = f"example[{place!r}]" if place != 0 else "example"
        raise ValueError(f"{where} must hold numbers, got dtype {value.dtype}.")
    return value


@contextmanager
def inference_mode(torch, module):
    """The module in `eval` mode and single precision at least; afterwards it is what it was."""
    modes = {part: part.training for part in module.modules()}
    held = {id(t): t for t in (*module.parameters(), *module.buffers())}.values()
    before = [(t, t.data, t.grad) for t in held]
    fast = torch.backends.mha.get_fastpath_enabled()
    try:
        module.eval()
        torch.backends.mha.set_fastpath_enabled(False)  # one fused operator for a whole layer, and no derivative
        for t, data, _ in before:
            t.grad = None  # what a training has left is of the type that the numbers had
            # buffers as copies: a call may write into them
            t.data = data.float() if is_half(data) else data if t.requires_grad else data.clone()
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
        for t, data, slope in before:
            t.data = data
            t.grad = slope
        for part, mode in modes.items():
            part.training = mode


def is_half(tensor) -> bool:
    """Whether a tensor has floating-point numbers of fewer than 32 bits."""
    return tensor.is_floating_point() and tensor.element_size() < 4


def inputs(torch, module, batch: dict) -> tuple[tuple, dict]:
    """The arguments of a call, each a tensor of its own, in the precision and on the device of most of the module."""
    sizes = Counter()
    for p in module.parameters():
        if p.is_floating_point():
            sizes[p.dtype, p.device] += p.numel()
    (precision, device), _ = sizes.most_common(1)[0]

    def tensor(a):
        kind = precision if a.dtype.kind == "f" else torch.int64 if a.dtype.kind == "i" else None
        return torch.tensor(a, dtype=kind, device=device)

    args = tuple(tensor(a) for place, a in batch.items() if isinstance(place, int))
    return args, {place: tensor(a) for place, a in batch.items() if isinstance(place, str)}


class Calls(NamedTuple):
    """What a module returns for a few examples, by name: in one batch, or None if it takes none, and one by one."""

    batch: dict
    together: dict | None
    apart: dict


def tried(torch, module, one: dict) -> Calls:
    """The module called on a few examples: the one given, with its entries moved on if it takes that, or as it is."""
    moved = {place: np.stack([_moved(a, k) for k in range(FEW)]) for place, a in one.items()}
    same = {place: np.stack([a] * FEW) for place, a in one.items()}
    for batch in (moved, same):
        try:
            apart = [_outputs(torch, module, {p: a[k : k + 1] for p, a in batch.items()}) for k in range(FEW)]
            break
        except Exception as error:
            if batch is same:
                shapes = ", ".join(str(a.shape) for a in one.values())
                raise ValueError(
                    f"the module could not be called on a batch of one example of shape {shapes}: {first_line(error)}."
                ) from error
    try:
        together = _outputs(torch, module, batch)
    except Exception:
        together = None
    return Calls(batch, together, {name: [a[name] for a in apart] for name in apart[0]})


def _moved(a, k: int):
    """Another example like `a`: its entries moved on, or shifted if they are all the same number."""
    if a.dtype.kind == "f" and (a == a.flat[:1]).all():
        return (a + k / 2).astype(a.dtype)
    return np.roll(a, k * max(a.size // FEW, 1))


def _outputs(torch, module, batch) -> dict:
    args, kwargs = inputs(torch, module, batch)
    with torch.no_grad():
        found = module(*args, **kwargs)
    return {name: a.detach().cpu().double().numpy() for name, a in named(found, torch.Tensor)}


class Examples(NamedTuple):
    """A module's outputs for a few examples, and whether each is the same without the others."""

    outputs: np.ndarray
    apart: bool


def examples(name, calls: Calls) -> Examples:
    """The outputs of each example under a name; the axis of the examples is the one that grows with the batch."""
    alone = calls.apart[name]
    if calls.together is None:
        return Examples(np.stack([a.reshape(a.shape[1:]) if a.shape[:1] == (1,) else a for a in alone]), True)
    together = calls.together[name]
    axes = [k for k, (n, m) in enumerate(zip(alone[0].shape, together.shape, strict=False)) if (n, m) == (1, FEW)]
    if together.ndim != alone[0].ndim:  # as after `squeeze`, which takes a batch of one for no batch
        axes = [0] if together.shape[:1] == (FEW,) else []
    if not axes:
        raise ValueError(
            f"the module must return one output per example, got the shape {together.shape} for a batch of {FEW}."
        )
    together = np.moveaxis(together, axes[0], 0)
    if alone[0].size != together[0].size:
        return Examples(together, False)
    alone = np.stack([a.reshape(together[0].shape) for a in alone])
    return Examples(together, difference(alone, together) <= 1e-3)


def difference(ours, theirs) -> float:
    """The largest difference relative to the largest number; what is not finite must be so in both."""
    if not np.array_equal(np.isfinite(ours), np.isfinite(theirs)):
        return float("inf")
    ours, theirs = (np.where(np.isfinite(theirs), a, 0) for a in (ours, theirs))
    return float(np.abs(ours - theirs).max(initial=0) / max(np.abs(theirs).max(initial=0), np.finfo(np.float32).tiny))
