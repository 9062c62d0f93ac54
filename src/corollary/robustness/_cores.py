"""Parts of the examples side by side on the cores of a CPU, which XLA leaves mostly to one in the loop of an attack."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp

from corollary._validate import concrete

#: the fewest examples that a core takes at once
FEWEST = 64


def side_by_side(run: Callable, x, batch_size: int, given):
    """`run(start, count, batch_size)` for all examples `x`, its arrays joined: in one part, or one for each core.

    `given` is what else `run` computes with. All parts have as many examples, so that they share one program; the last
    begins earlier where that does not come out even. What is computed at once stays `batch_size` examples, of all cores
    together.
    """
    n = x.shape[0]
    count = -(-n // _cores(x, batch_size, given))
    parts = -(-n // count)
    if parts == 1:
        return run(0, n, batch_size)
    size = batch_size // parts
    # what `with` has set is known to its own thread only
    wide, precision = jax.config.jax_enable_x64, jax.config.jax_default_matmul_precision
    device = jax.config.jax_default_device

    def part(i):
        with jax.enable_x64(wide), jax.default_matmul_precision(precision), jax.default_device(device):
            return jax.block_until_ready(run(min(i * count, n - count), count, size))

    # of threads that ask for the same program one compiles it, and the others wait for it
    with ThreadPoolExecutor(parts) as pool:
        found = list(pool.map(part, range(parts)))
    found[-1] = jax.tree.map(lambda a: a[parts * count - n :], found[-1])
    return jax.tree.map(lambda *a: jnp.concatenate(a), *found)


def _cores(x, batch_size: int, given) -> int:
    """How many cores have enough to do; one on an accelerator, and inside a trace."""
    known = all(map(concrete, jax.tree.leaves((x, given)))) and concrete(x[:1])
    if not known or any(device.platform != "cpu" for device in x.devices()):
        return 1
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(cores, x.shape[0] // FEWEST, batch_size // FEWEST))
