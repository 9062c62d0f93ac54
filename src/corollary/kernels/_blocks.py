"""A kernel matrix in blocks of examples, written straight into its place.

Beside the result there are never more than the features of two blocks and what contracting them needs; features of
all examples are held where the workspace has room for them, since they are then computed only once.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from corollary._engine.cpu_ready import cpu_ready
from corollary._memory import physical_memory
from corollary.kernels._tangents import Tangents, forward_contract
from corollary.network.batches import each

BLOCK = 2048


def workspace() -> int:
    """Bytes to work with: an eighth of the device's memory; of the machine's, at most 4 GiB, where it has none."""
    stats = jax.local_devices()[0].memory_stats() or {}
    return stats["bytes_limit"] // 8 if "bytes_limit" in stats else min((physical_memory() or 2**33) // 8, 2**32)


class Blocks(NamedTuple):
    """Examples per block, and of these per pass; outputs per pass; whether the features of all examples are held."""

    examples: int
    passes: int
    outputs: int
    held: bool


def block_sizes(tangents: Tangents, n1: int, n2: int | None, batch: int | None) -> Blocks:
    """What fits into the workspace; n2 None where both sides are one set."""
    made, kept, per_pair = tangents.bytes()
    room, n, outputs, every = workspace(), max(n1, n2 or 0), tangents.outputs, n1 + (n2 or 0)
    pairs = max(1, int((room / max(per_pair, 1)) ** 0.5))
    at_once = room // (2 * (made + kept))
    # what a pass makes is gone after it: where that is most of it, a block takes several passes in half of the room
    passes = max(1, room // (2 * made), at_once)
    if batch is None and not tangents.forward and every * kept <= room // 2:
        # blocks only serve to leave out one triangle of a symmetric matrix
        fit = min(pairs, n if n <= BLOCK else BLOCK)
        return Blocks(_even(n, fit), passes, outputs, True)
    fit = max(1, min(max(at_once, room // (4 * max(kept, 1))), pairs))
    if tangents.traced and fit < min(n, 16):
        # small blocks repeat too much work: fewer outputs at a time make larger ones
        outputs = max(1, outputs * fit // 16)
        fit = min(16, fit * tangents.outputs // outputs)
    return Blocks(_even(n, batch or fit), passes, outputs, False)


def chosen(tangents: Tangents, n1: int, n2: int | None, batch: int | None) -> tuple[Tangents, Blocks]:
    """The plan and its blocks; the leaner form where the quicker one would make features again and again."""
    blocks = block_sizes(tangents, n1, n2, batch)
    if batch is not None or blocks.held:
        return tangents, blocks
    lean = tangents.leaner()
    larger = block_sizes(lean, n1, n2, batch)
    return (lean, larger) if larger.held or larger.examples >= 2 * blocks.examples else (tangents, blocks)


def _even(n: int, most: int) -> int:
    """The size of equal blocks of at most so many examples."""
    return -(-n // -(-n // min(n, most)))


def kernel_matrix(tangents: Tangents, leaves, x1, x2, batch: int | None):
    """The matrix for lists of arrays `x1` and `x2` with the examples in their first axes; x2 None: both are x1."""
    same = x2 is None
    x2 = x1 if same else x2
    n1, n2 = x1[0].shape[0], x2[0].shape[0]
    k = () if tangents.traced else (tangents.outputs,) * 2
    if not tangents.weights and not tangents.whole:
        return jnp.zeros((n1, n2, *k), tangents.dtype)
    tangents, (block, passes, outputs, held) = chosen(tangents, n1, None if same else n2, batch)
    features, contract = _steps(tangents, leaves, outputs, passes)
    if held or block >= max(n1, n2):
        f = features(x1)
        g = f if same else features(x2)
        if block >= max(n1, n2):
            return contract(f, g)
        x1, x2, features = f, g, lambda part: part
    b1, b2 = min(block, n1), min(block, n2)
    result = jnp.zeros((n1, n2, *k), tangents.dtype)
    # the last block is moved back to end with the examples: what it repeats, it repeats equally
    starts1, starts2 = (jnp.asarray(np.minimum(np.arange(0, n, b), n - b)) for n, b in ((n1, b1), (n2, b2)))

    def row(result, start):
        f = features(_taken(x1, start, b1))

        def tile(result, column):
            found = contract(f, features(_taken(x2, column, b2)))
            result = lax.dynamic_update_slice(result, found, (start, column, *(0,) * len(k)))
            if same:
                mirrored = found.transpose(1, 0, *(3, 2)[: len(k)])
                result = lax.dynamic_update_slice(result, mirrored, (column, start, *(0,) * len(k)))
            return result

        def visit(result, column):
            if not same:
                return tile(result, column), None
            # below the diagonal a symmetric matrix is known already
            return lax.cond(column + b2 > start, tile, lambda r, _: r, result, column), None

        return lax.scan(visit, result, starts2)[0], None

    return lax.scan(row, result, starts1)[0]


def _steps(tangents, leaves, outputs, passes):
    """Features of a block and the contraction of two, with this many outputs and examples per pass at a time."""
    k = tangents.outputs
    shape = tangents.program.shape(tangents.program.output)
    dtype = tangents.program.avals[tangents.program.output].dtype
    if tangents.forward:
        return (lambda x: x), cpu_ready(lambda a, b: forward_contract(tangents, leaves, a, b))
    if outputs == k:
        basis = jnp.eye(k, dtype=dtype).reshape(k, *shape)
        made = cpu_ready(lambda x: tangents.features(leaves, x, basis))
        return (lambda x: each(made, x, passes)), cpu_ready(tangents.contract)

    @cpu_ready
    def ready(a, b, basis):
        return tangents.contract(*(each(lambda x: tangents.features(leaves, x, basis), x, passes) for x in (a, b)))

    def contract(a, b):
        def some(total, start):
            # rows beyond the last output are zero and add nothing
            basis = jax.nn.one_hot(start + jnp.arange(outputs), k, dtype=dtype).reshape(outputs, *shape)
            return total + ready(a, b, basis), None

        zero = jnp.zeros((a[0].shape[0], b[0].shape[0]), tangents.dtype)
        return lax.scan(some, zero, jnp.arange(0, k, outputs))[0]

    return (lambda x: x), contract


def _taken(arrays, start, size):
    return jax.tree.map(lambda a: lax.dynamic_slice_in_dim(a, start, size), arrays)
