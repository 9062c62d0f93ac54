"""What PyTorch has beside ATen: parts of results, and branches."""

from __future__ import annotations

from jax import lax

from corollary.network._aten.table import aten


@aten("getitem")
def getitem(a, b):
    return a[b]


@aten("cond")
def cond(pred, true_fn, false_fn, operands=()):
    return lax.cond(pred, lambda given: true_fn(*given), lambda given: false_fn(*given), tuple(operands))
