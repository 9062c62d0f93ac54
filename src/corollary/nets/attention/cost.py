r"""What a transformer costs: multiplications and parameters by its sizes, beside those of a recurrent network.

Multiplications are those of the matrix products, each with one addition; entrywise work (softmax, normalisation,
shortcuts) is left out, as in the texts. `autodiff.multiplications` counts the same in a program.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax

from corollary._validate import whole
from corollary.catalog import implements


class TransformerCost(NamedTuple):
    """Multiplications of an encoder on one sequence, by where they are spent."""

    projections: int
    attention: int
    network: int

    @property
    def total(self) -> int:
        return self.projections + self.attention + self.network


@implements("E06.13", "M13.46")
def transformer_cost(length: int, width: int, depth: int, hidden: int) -> TransformerCost:
    r"""$N(4Td^2+2T^2d+2Td\,d_{ff})$: the four projections, logits and weighted means, and the network of each token.

    The heads share the width, $Hd_k=Hd_v=d$, so that their number does not matter. Attention is the only part that
    grows with the square of the length $T$.
    """
    T, d, N, f = whole("length", length), whole("width", width), whole("depth", depth), whole("hidden", hidden)
    return TransformerCost(N * 4 * T * d * d, N * 2 * T * T * d, N * 2 * T * d * f)


@implements("T15.08")
def epoch_cost(tokens: int, length: int, width: int, depth: int) -> int:
    r"""$MN(3d^2+2Ld)$: one pass forward over $M$ tokens in sections of length $L$, with $N$ layers of one head each.

    A layer has three projections and nothing beside attention, and takes $3Ld^2+2L^2d$ multiplications a section; the
    last section may be shorter, and is padded.
    """
    M, L, d, N = whole("tokens", tokens), whole("length", length), whole("width", width), whole("depth", depth)
    return -(-M // L) * N * (3 * L * d * d + 2 * L * L * d)


@implements("E06.13")
def transformer_parameters(width: int, depth: int, hidden: int, *, bias: bool = False) -> int:
    r"""$N(4d^2+2d\,d_{ff}+4d)$: matrices, scale and shift of two normalisations; with `bias`, $N(5d+d_{ff})$ more."""
    d, N, f = whole("width", width), whole("depth", depth), whole("hidden", hidden)
    return N * (4 * d * d + 2 * d * f + 4 * d + (5 * d + f if bias else 0))


@implements("M13.40")
def block_parameters(width: int, heads: int, size: int, value_size: int, hidden: int) -> int:
    r"""$H(2dd_k+dd_v+d_vd)+2d\,d_f+d_f+4d$, M's block: no biases but the hidden one of the network."""
    d, H, f = whole("width", width), whole("heads", heads), whole("hidden", hidden)
    k, v = whole("size", size), whole("value_size", value_size)
    return H * (2 * d * k + 2 * d * v) + 2 * d * f + f + 4 * d


@implements("E06.13")
def crossover_length(width: int, hidden: int) -> int:
    r"""$T=2d+d_{ff}$, the length from which on attention costs more than everything else together."""
    return 2 * whole("width", width) + whole("hidden", hidden)


@implements("M13.46")
def attention_cost(length: int, heads: int, size: int, value_size: int) -> tuple[int, int]:
    r"""$n^2(d_k+d_v)H$ multiplications for logits and weighted means, and $n^2H$ weights to store, in one layer."""
    n, H = whole("length", length), whole("heads", heads)
    return n * n * (whole("size", size) + whole("value_size", value_size)) * H, n * n * H


@implements("M13.46")
def recurrent_cost(length: int, units: int, inputs: int) -> tuple[int, int]:
    r"""$nN(N+d)$ multiplications of an Elman layer with $N$ units on inputs of size $d$, and $nN$ states to store."""
    n, N = whole("length", length), whole("units", units)
    return n * N * (N + whole("inputs", inputs)), n * N


@implements("M13.46")
def sequential_steps(f: Callable, *arguments: Any) -> int:
    """The turns of the loops in `f(*arguments)`, which cannot be run at the same time: those of a loop in a loop count
    as often as they are run. Loops of unknown length cannot be counted."""
    if not callable(f):
        raise TypeError(f"f must be a function, got {type(f).__name__}.")
    return _turns(jax.make_jaxpr(f)(*arguments))


def _turns(program) -> int:
    total = 0
    for equation in getattr(program, "jaxpr", program).eqns:
        if equation.primitive.name == "while":
            raise ValueError("The turns of a while loop cannot be counted.")
        inner = [_turns(v) for v in equation.params.values() if hasattr(getattr(v, "jaxpr", v), "eqns")]
        loop = equation.params["length"] if equation.primitive.name == "scan" else 0
        total += max(loop, 1) * sum(inner) if sum(inner) else loop
    return total
