"""What a watch measures of a network in training: programs that are compiled once and then get other weights only."""

from __future__ import annotations

import itertools
import math
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from corollary import landscape
from corollary.audit._data import count
from corollary.network.parts import matched

# examples for the loss on fresh batches, for held-out data, for training data beside them, for units, and for gradients
# one by one
# (no power of two for the largest: where examples are as many as units, XLA's products on CPUs can be ten times slower)
FRESH, HELD, SEEN, UNITS, GRADIENTS = 64, 500, 100, 128, 128
# parameters of which the size of a step is estimated
SAMPLED = 1 << 13
# numbers that the gradients of the examples may be
STORED = 1 << 26
# products with the Hessian for its largest eigenvalue, and for its trace
PRODUCTS, PROBES = 12, 8
# bins of the histograms, and how many entries are counted
BINS, BINS2, COUNTED = 40, 16, 1 << 17


class Looks(NamedTuple):
    """A subject as arrays and programs of them; `arrays` are all arrays of its network, where training begins."""

    arrays: Any
    static: Any
    mask: Any
    objective: Any
    train: Any
    test: Any
    batch: int
    places: tuple[int, ...]  # of the parameters among the arrays
    on_host: bool  # whether all is computed on the CPU

    def read(self, network) -> Any:
        """The arrays of a network of the same kind; one sentence for another kind."""
        own, tree = jax.tree.flatten(self.arrays)
        given = [a for a in jax.tree.leaves(network) if eqx.is_array(a)]
        if [a.shape for a in given] != [a.shape for a in own]:
            given = jax.tree.leaves(matched("network", eqx.filter(network, eqx.is_array), self.arrays))
        same = all(isinstance(a, jax.Array) and a.dtype == b.dtype for a, b in zip(given, own, strict=True))
        return tree.unflatten(given if same else [jnp.asarray(a, b.dtype) for a, b in zip(given, own, strict=True)])


def looks(subject) -> Looks:
    """The programs of a subject."""
    network = subject.network
    arrays, static = eqx.partition(network, eqx.is_array)
    mask = jax.tree.map(lambda p: p is not None, subject.params, is_leaf=lambda v: v is None)
    batch = min(subject.batch_size or GRADIENTS, GRADIENTS, count(subject.train), max(2, STORED // subject.size))
    numbered = jax.tree.unflatten(jax.tree.structure(arrays), range(len(jax.tree.leaves(arrays))))
    places = tuple(jax.tree.leaves(eqx.filter(numbered, mask)))
    on_host = all(device.platform == "cpu" for a in jax.tree.leaves(arrays) for device in jnp.asarray(a).devices())
    return Looks(arrays, static, mask, subject.objective, subject.train, subject.test, max(batch, 2), places, on_host)


def _split(looks: Looks, arrays):
    """Parameters, and the loss of one example as a function of them."""
    params, fixed = eqx.partition(eqx.combine(arrays, looks.static), looks.mask)

    def own(params, x, y):
        return looks.objective.loss.function(eqx.combine(params, fixed)(x), y)

    return params, own


def _taken(data, rows):
    return jax.tree.map(lambda a: a[rows], data)


@eqx.filter_jit
def copied(arrays):
    """Copies, which stay when the training gives its own arrays away."""
    return jax.tree.map(lambda a: a + jnp.zeros((), a.dtype) if jnp.issubdtype(a.dtype, jnp.number) else a, arrays)


def sampled(looks: Looks, arrays) -> np.ndarray:
    """Some entries of the parameters, in the scale of all: the norm of a difference is about that of all of them."""
    leaves = jax.tree.leaves(arrays)
    own = [leaves[i] for i in looks.places]
    # where they lie in memory no program has to be started
    return spread([np.asarray(a) for a in own], np.concatenate) if looks.on_host else np.asarray(_spread(own))


def spread(leaves: list, concatenate: Any):
    """Every so manieth entry of each array, times the root of how many it stands for: about `SAMPLED` of them."""
    every = max(1, sum(math.prod(a.shape) for a in leaves) // SAMPLED)
    # a stride without a common divisor with the last axis meets all columns
    strides = [next(s for s in itertools.count(every) if math.gcd(s, *a.shape[-1:]) == 1) for a in leaves]
    parts = [a.reshape(-1)[::stride] for a, stride in zip(leaves, strides, strict=True)]
    return concatenate([p * (math.prod(a.shape) / max(len(p), 1)) ** 0.5 for a, p in zip(leaves, parts, strict=True)])


# a plain program of few arrays: it is called often
_spread = jax.jit(lambda leaves: spread(leaves, jnp.concatenate))


@eqx.filter_jit
def losses(looks: Looks, arrays, data, rows):
    """The losses of some examples."""
    params, own = _split(looks, arrays)
    x, y = _taken(data, rows)
    return jax.vmap(lambda x, y: own(params, x, y))(x, y)


@eqx.filter_jit
def dead(looks: Looks, arrays, rows):
    """The share of dead units of every layer with a nonlinearity, and how many they are, by its name."""
    network, loss = eqx.combine(arrays, looks.static), looks.objective.loss
    found = landscape.layer_signals(network, loss, _taken(looks.train, rows), batch_size=rows.shape[0])
    return {a.name: jnp.stack([a.dead, a.dead * a.units]) for a in found if a.dead is not None}


@eqx.filter_jit
def everything(looks: Looks, arrays, before, rows, key):
    """Loss, gradient and its noise, step, curvature: the numbers at `arrays`, one step after `before`, on one batch."""
    params, own = _split(looks, arrays)
    x, y = _taken(looks.train, rows)
    flat, unravel = ravel_pytree(params)

    def examples(v):
        return jax.vmap(lambda x, y: own(unravel(v), x, y))(x, y)

    each = jax.vmap(lambda x, y: jax.value_and_grad(lambda p: own(p, x, y))(params))
    values, gradients = each(x, y)
    tests = landscape.gradient_tests(gradients)
    slope, product = jax.linearize(jax.grad(lambda v: jnp.mean(examples(v))), flat)
    top_key, trace_key = jax.random.split(key)
    top = landscape.eigenpairs(
        product,
        flat.size,
        1,
        key=top_key,
        products=PRODUCTS,
        basis=min(PRODUCTS, flat.size),
        tolerance=1e-3,
        start=slope,
        dtype=flat.dtype,
    )
    trace = landscape.hutchinson(product, flat.size, key=trace_key, probes=PROBES, dtype=flat.dtype)
    found = tests._asdict() | {"loss": values.mean(), "sharpness": top.values[0], "sharpness_error": top.residuals[0]}
    found |= {"hessian_trace": trace.value, "hessian_trace_error": trace.error}
    found |= {"takeuchi": tests.trace / trace.value}
    found |= _step(looks, before, examples, flat, values)
    return found | _histograms(gradients, params)


def _step(looks, before, examples, flat, values):
    """The size of the last step, and the parabola along it."""
    start = ravel_pytree(_split(looks, before)[0])[0]
    step = flat - start
    old, rates = jax.jvp(examples, (start,), (step,))
    size = len(values)

    def mean(a):
        return a.mean(), a.std(ddof=1) / jnp.sqrt(size)

    new = jax.jvp(examples, (flat,), (step,))[1]
    ends = [mean(a) for a in (old, values, rates, new)]
    means, errors = (jnp.stack([end[i] for end in ends]) for i in (0, 1))
    least = jnp.finfo(flat.dtype).eps * (1 + jnp.abs(means))
    errors = jnp.maximum(errors, least)
    fit = landscape.step_fit(means[:2], means[2:], errors[:2], errors[2:])
    square = jnp.sum(step**2)
    curvature = fit.curvature / jnp.where(square > 0, square, 1)
    return {"update_size": jnp.sqrt(square), "overshoot": fit.overshoot, "curvature_along_step": curvature}


def _histograms(gradients, params):
    """How many entries of the examples' gradients lie in bins of one width; and by the size of their parameter."""
    pairs = [*zip(jax.tree.leaves(gradients), jax.tree.leaves(params), strict=True)]
    ends = [jnp.max(jnp.stack([jnp.max(jnp.abs(a)) for a in side])) for side in zip(*pairs, strict=True)]
    total = sum(g.size for g, _ in pairs)

    def bins(a, end, number):
        return jnp.clip(((a / jnp.where(end > 0, end, 1) + 1) * number / 2).astype(int), 0, number - 1)

    def counted(g, p):
        places = jnp.arange(-(-g.size // stride)) * stride
        return g.reshape(-1)[places], p.reshape(-1)[places % p.size]

    # an odd stride: with an even one some parameters would be met in every example, and others never
    stride = max(1, total // COUNTED) | 1
    entries, owners = map(jnp.concatenate, zip(*(counted(g, p) for g, p in pairs), strict=True))
    one = jnp.bincount(bins(entries, ends[0], BINS), length=BINS)
    both = bins(entries, ends[0], BINS2) * BINS2 + bins(owners, ends[1], BINS2)
    two = jnp.bincount(both, length=BINS2**2).reshape(BINS2, BINS2)
    return {"histogram": one, "histogram_end": ends[0], "histogram_by_parameter": two, "parameter_end": ends[1]}


def drawn(rng: np.random.Generator, total: int, wanted: int) -> np.ndarray:
    """So many examples at random, each once; all of them if there are fewer."""
    return rng.choice(total, min(wanted, total), replace=False)
