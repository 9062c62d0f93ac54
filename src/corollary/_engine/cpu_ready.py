"""Programs in the form that XLA runs fastest on a CPU: the same numbers up to rounding, in less time.

- *Convolutions.* XLA brings them into its own order of axes (examples, space, channels) only outside loops. In a
  loop those that are not in it, such as every derivative by a kernel, do without its fast routine, and take a hundred
  times as long.
- *Few channels.* A convolution from or to images of one or three channels does without that routine too. With two by
  two pixels as one of four times the channels it is three to ten times as fast.
- *Pooling.* See `windows`.
- *Products over several axes.* The derivative by the weights of a layer that is mapped over examples and over their
  tokens is a sum over both. XLA transposes its first factor, entry by entry, together with all that led to it; with the
  two axes made one, it leaves that to the routine for products.
- *The wide factor second.* That routine shares its work among the cores by the columns of the second factor.
- *Sums over time.* The derivative by the weights of a recurrent network is a sum over the steps of products that are
  too small to be fast. Where the factors are kept anyway, it is one product after the loop.
"""

import math
from collections import Counter
from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend.core import JaxprEqn, Literal

from corollary._engine.jaxpr import PART, body_of, evaluate, loop_of, rewritten, run_equation
from corollary._engine.windows import by_entries, in_blocks

#: Sums shorter than this are no work for a second core, and not worth a transposed result.
LONG = 128
#: Convolutions with fewer channels, on either side, run on one core and without the fast routine; and the widest kernel
#: of those that are done in blocks of pixels, which costs 1 + 1 / width times the products along each axis.
CHANNELS, SHORT = 4, 9
#: The pixels of a block, by row and column.
BLOCK = (0, 0), (0, 1), (1, 0), (1, 1)


def cpu_ready(function: Callable) -> Callable:
    """`function`, with its products and convolutions as XLA runs them fastest on a CPU.

    After differentiation: `eqx.filter_jit(cpu_ready(eqx.filter_grad(loss)))`, or with `jax` for `eqx.filter`
    where all arguments are arrays. On other devices it is the function itself. Loops (`scan`) inside it are made
    ready too; functions with derivative rules of their own stay whole.
    """
    if not callable(function):
        raise TypeError(f"function must be a function, got {type(function).__name__}.")
    again = rewritten(function, _run)
    return lambda *args, **kwargs: (again if jax.default_backend() == "cpu" else function)(*args, **kwargs)


def _run(eqn: JaxprEqn, values) -> list:
    name, body = eqn.primitive.name, body_of(eqn)
    if eqn.params.get("name") == PART and not body[1]:
        return _part(body[0])(*values)
    if body is not None:
        # what `jax.checkpoint` computes again must not be merged with the first time, or nothing would be saved
        again = eqn.params.get("differentiated") and eqn.params.get("prevent_cse")
        return evaluate(*body, lax.optimization_barrier(values) if again else values, _run)
    if name == "conv_general_dilated":
        return [_convolve(eqn, *values)]
    if name == "dot_general":
        return [_multiply(eqn, *values)]
    if name == "scan":
        return _scan(eqn, values)
    found = in_blocks(eqn, *values) if name == "reshape" else by_entries(eqn, values)
    return run_equation(eqn, values) if found is None else [found]


@lru_cache(maxsize=512)
def _part(jaxpr):
    """A part of a long program made ready, once for all calls of it."""

    def part_of_program(*values):
        return evaluate(jaxpr, (), values, _run)

    return jax.jit(part_of_program)


def _convolve(eqn, x, kernel):
    """In the order of axes of XLA's fast routine; few channels become more, which it asks for."""
    # a specification lists the axes of examples (of a kernel: outputs), of channels, and of space
    lhs, rhs, out = eqn.params["dimension_numbers"]
    last = x.ndim - 1
    own = (0, last, *range(1, last))
    x = x.transpose([lhs[0], *lhs[2:], lhs[1]])
    kernel = kernel.transpose([*rhs[2:], rhs[1], rhs[0]])
    numbers = lax.ConvDimensionNumbers(own, (last, last - 1, *range(last - 1)), own)
    eqn = eqn.replace(params=eqn.params | {"dimension_numbers": numbers})
    found = _in_blocks(eqn, x, kernel) if _few_channels(eqn, kernel) else run_equation(eqn, [x, kernel])[0]
    back = dict(zip(out, own, strict=True))
    return found.transpose([back[axis] for axis in range(x.ndim)])


def _few_channels(eqn, kernel) -> bool:
    """Whether this is a convolution of images with fewer channels than XLA's fast routine takes, at every place."""
    params = eqn.params
    plain = all(n == 1 for k in ("window_strides", "lhs_dilation", "rhs_dilation") for n in params[k])
    alone = params["feature_group_count"] == params["batch_group_count"] == 1
    return plain and alone and kernel.ndim == 4 and max(kernel.shape[:2]) <= SHORT and min(kernel.shape[2:]) < CHANNELS


def _in_blocks(eqn, x, kernel):
    """The same convolution with two by two neighbours as one place of four times the channels, on both sides."""
    sizes, window, around = x.shape[1:3], kernel.shape[:2], eqn.params["padding"]
    places = [n + sum(sides) - m + 1 for n, sides, m in zip(sizes, around, window, strict=True)]
    # the outputs 2j and 2j + 1 read from 2j - before on: where that is odd, one zero goes to the image
    odd = [before % 2 for before, _ in around]
    x = jnp.pad(x, [(0, 0), *((k, (n + k) % 2) for n, k in zip(sizes, odd, strict=True)), (0, 0)])
    kernel = _kernel_of_blocks(kernel)
    blocks, taps = [n // 2 for n in x.shape[1:3]], kernel.shape[:2]
    first = [(before - k) // 2 for (before, _), k in zip(around, odd, strict=True)]
    last = [-(-p // 2) + t - 1 - b - f for p, t, b, f in zip(places, taps, blocks, first, strict=True)]
    eqn = eqn.replace(params=eqn.params | {"padding": tuple(zip(first, last, strict=True))})
    # slices, not another shape: what leads to them is then computed entry by entry, without a division for each
    found = run_equation(eqn, [jnp.concatenate([x[:, a::2, b::2] for a, b in BLOCK], -1), kernel])[0]
    n, rows, columns, _ = found.shape
    found = found.reshape(n, rows, columns, 2, 2, -1).transpose(0, 1, 3, 2, 4, 5)
    return found.reshape(n, 2 * rows, 2 * columns, -1)[:, : places[0], : places[1]]


def _kernel_of_blocks(kernel):
    """From all inputs of a block to all outputs of one: the kernel, at its four places in a window of blocks."""
    height, width, inputs, _ = kernel.shape
    rows, columns = height // 2 + 1, width // 2 + 1
    at = [((a, 2 * rows - height - a), (b, 2 * columns - width - b), (0, 0), (0, 0)) for a, b in BLOCK]
    four = jnp.stack([jnp.pad(kernel, sides) for sides in at], 3)
    four = four.reshape(rows, 2, columns, 2, *four.shape[2:]).transpose(0, 2, 1, 3, 4, 5, 6)
    return four.reshape(rows, columns, 4 * inputs, -1)


def _multiply(eqn, a, b):
    """The sum over the axes `over` of products of `a` and `b`, for each of the axes `each` that they share."""
    over, each = eqn.params["dimension_numbers"]
    if len(over[0]) > 1 and not each[0]:
        pairs = sorted(zip(*over, strict=True))
        if all(x[i] + 1 == y[i] for x, y in pairwise(pairs) for i in (0, 1)):
            (i, j), count = pairs[0], len(pairs)
            a, b = (c.reshape(*c.shape[:k], -1, *c.shape[k + count :]) for c, k in ((a, i), (b, j)))
            over = (i,), (j,)
    kept = [k for k in range(a.ndim) if k not in (*over[0], *each[0])]
    length = math.prod(a.shape[k] for k in over[0])
    if a.size <= b.size or length < LONG or kept[0] < max(over[0]):
        return _product(eqn, a, b, over, each)
    # the barrier keeps XLA from turning the transposed product into the product that it was
    found = lax.optimization_barrier(_product(_exchanged(eqn), b, a, over[::-1], each[::-1]))
    shared, first = len(each[0]), b.ndim - len(over[1]) - len(each[1])
    return jnp.moveaxis(found, range(shared, shared + first), range(-first, 0))


def _product(eqn, a, b, over, each):
    return run_equation(eqn.replace(params=eqn.params | {"dimension_numbers": (over, each)}), [a, b])[0]


def _exchanged(eqn):
    """A precision of each factor goes with it."""
    precision = eqn.params["precision"]
    return eqn.replace(
        params=eqn.params | {"precision": precision[::-1] if isinstance(precision, tuple) else precision}
    )


def _scan(eqn, values):
    body, params = eqn.params["jaxpr"], eqn.params
    loop, sums = loop_of(eqn, values), _sums_over_time(eqn)
    consts, carried = len(loop.consts), len(loop.carry)
    kept = [i for i in range(carried) if i not in sums]
    # the factors of the sums, where they are not slices themselves
    factors = list(dict.fromkeys(v for total in sums.values() for v in total.product.invars))
    sliced = dict(zip(body.jaxpr.invars[consts + carried :], loop.xs, strict=True))
    made = [v for v in factors if v not in sliced]
    summed = [e for total in sums.values() for e in (total.add, total.product, *total.turned)]
    outvars = [*(body.jaxpr.outvars[i] for i in kept), *body.jaxpr.outvars[carried:], *made]

    def turn(carry, xs):
        full = list(loop.carry)  # those that are summed up after the loop are not looked at in it
        for i, value in zip(kept, carry, strict=True):
            full[i] = value
        args = [*loop.consts, *full, *xs]
        out = evaluate(body.jaxpr, body.consts, args, _run, without=summed, outvars=outvars)
        return out[: len(kept)], out[len(kept) :]

    carry, ys = lax.scan(
        turn,
        [loop.carry[i] for i in kept],
        loop.xs,
        length=params["length"],
        reverse=params["reverse"],
        unroll=params["unroll"],
    )
    stacked = sliced | dict(zip(made, ys[len(ys) - len(made) :], strict=True))
    out = dict(zip(kept, carry, strict=True))
    for i, total in sums.items():
        out[i] = loop.carry[i] + _after(total, stacked)
    return [*(out[i] for i in range(carried)), *ys[: len(ys) - len(made)]]


class _Sum(NamedTuple):
    """A carried sum of products: `add` adds a `product` to what is carried, after it was `turned` (transposed)."""

    add: JaxprEqn
    product: JaxprEqn
    turned: tuple[JaxprEqn, ...]


def _sums_over_time(eqn) -> dict[int, _Sum]:
    """By their place in the carry: the sums that a derivative adds up, of products whose factors change in time.

    None, where to keep the factors would take more memory than the loop takes already.
    """
    jaxpr, loop = eqn.params["jaxpr"].jaxpr, loop_of(eqn, list(eqn.params["jaxpr"].jaxpr.invars))
    makers = {v: e for e in jaxpr.eqns for v in e.outvars}
    uses = Counter(v for e in jaxpr.eqns for v in e.invars if not isinstance(v, Literal))
    uses.update(v for v in jaxpr.outvars if not isinstance(v, Literal))

    def made_by(v, *names):
        found = makers.get(v) if not isinstance(v, Literal) and uses[v] == 1 else None
        return found if found is not None and found.primitive.name in names else None

    found = {}
    for i, (before, after) in enumerate(zip(loop.carry, jaxpr.outvars, strict=False)):
        add = made_by(after, "add_any")
        if add is None or uses[before] != 1 or before not in add.invars:
            continue
        (term,) = (v for v in add.invars if v is not before)
        turned = ()
        while (last := made_by(term, "transpose")) is not None:
            turned, (term,) = (last, *turned), last.invars
        product = made_by(term, "dot_general")
        if product is not None and not any(isinstance(v, Literal) or v in loop.consts for v in product.invars):
            found[i] = _Sum(add, product, turned)
    factors = {v for total in found.values() for v in total.product.invars} - set(loop.xs)
    kept = sum(v.aval.size for v in [*loop.xs, *jaxpr.outvars[len(loop.carry) :]])
    return found if sum(v.aval.size for v in factors) <= kept else {}


def _after(total: _Sum, stacked: dict):
    """The sum of all products, from their factors `stacked` along a first axis."""
    over, each = total.product.params["dimension_numbers"]
    over = tuple((0, *(k + 1 for k in axes)) for axes in over)
    each = tuple(tuple(k + 1 for k in axes) for axes in each)
    product = total.product.replace(params=total.product.params | {"dimension_numbers": (over, each)})
    out = _multiply(product, *(stacked[v] for v in product.invars))
    for turned in total.turned:
        out = out.transpose(turned.params["permutation"])
    return out
