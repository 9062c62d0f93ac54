"""A network as it comes in, `apply(params, x)`: compiled once, its arguments checked, its examples independent."""

from functools import lru_cache, partial

import jax
import jax.numpy as jnp
import numpy as np

from corollary._validate import concrete

_PROBES = 3


def compiled(*what):
    """The function `what[0]` with the other arguments fixed, compiled; the same one again where they are known."""
    try:
        return _remembered(*what)
    except TypeError:  # a callable without a hash cannot be found again
        return jax.jit(partial(*what))


@lru_cache(maxsize=64)
def _remembered(*what):
    return jax.jit(partial(*what))


def arguments(apply, params, x1, x2):
    if not callable(apply):
        raise TypeError(f"apply must be a function of parameters and inputs, got {type(apply).__name__}.")
    params = _arrays("params", params)
    if not any(jnp.issubdtype(a.dtype, jnp.floating) for a in jax.tree.leaves(params)):
        raise ValueError("params must hold at least one floating-point array to differentiate by.")
    x1 = _examples("x1", x1)
    x2 = None if x2 is None else _examples("x2", x2)
    shapes = [None if x is None else jax.tree.map(lambda a: (a.shape[1:], a.dtype), x) for x in (x1, x2)]
    if x2 is not None and shapes[0] != shapes[1]:
        raise ValueError(f"x2 must have examples like those of x1, {_spelled(x1)}, got {_spelled(x2)}.")
    for name, x in (("x1", x1), ("x2", x2)):
        if x is None:
            continue
        out = jax.eval_shape(apply, params, x)
        shape, n = getattr(out, "shape", None), length(x)
        if shape is None:
            raise TypeError(f"apply must return one array, got {type(out).__name__}.")
        if shape[:1] != (n,):
            raise ValueError(f"apply must return an output for each of the {n} examples of {name}, got shape {shape}.")
        if not jnp.issubdtype(out.dtype, jnp.floating):
            raise TypeError(f"apply must return real floating-point numbers, got dtype {out.dtype}.")
        if 0 in shape:
            raise ValueError(f"apply must return at least one output, got shape {shape}.")
    return params, x1, x2


def _arrays(name, tree):
    def leaf(path, value):
        where = name + jax.tree_util.keystr(path)
        try:
            out = jnp.asarray(value)
        except (TypeError, ValueError):
            raise TypeError(f"{where} must be an array of numbers, got {type(value).__name__}.") from None
        if jnp.issubdtype(out.dtype, jnp.complexfloating):
            raise TypeError(f"{where} must be real, got dtype {out.dtype}.")
        return out

    return jax.tree_util.tree_map_with_path(leaf, tree)


def _examples(name, x):
    x = _arrays(name, x)
    shapes = [a.shape for a in jax.tree.leaves(x)]
    if not shapes:
        raise ValueError(f"{name} must hold at least one array.")
    if any(s == () for s in shapes) or len({s[0] for s in shapes}) > 1:
        raise ValueError(f"{name} must have the examples in its first axis, got {_spelled(x)}.")
    if any(0 in s for s in shapes):
        raise ValueError(f"{name} must not be empty, got {_spelled(x)}.")
    return x


def _spelled(x):
    return "shape " + " and ".join(f"{a.shape} of {a.dtype}" for a in jax.tree.leaves(x))


def length(x):
    return jax.tree.leaves(x)[0].shape[0]


def inspect(apply, params, x1, x2):
    """Refuse what is not finite, and examples that influence each other."""
    named = {"params": params, "x1": x1, "x2": x2}
    finite, good, gap, size = compiled(_probe, apply)(named)
    if not concrete(good):  # all arguments are constants of a program that is being traced
        return
    for path, flag in jax.tree_util.tree_leaves_with_path(finite):
        if not flag:
            raise ValueError(f"{path[0].key}{jax.tree_util.keystr(path[1:])} must be finite.")
    if not good:
        raise ValueError("apply must return finite numbers for finite inputs.")
    # rounding differs between batches of different sizes, but not by half of the digits
    if gap > float(jnp.finfo(gap.dtype).eps) ** 0.5 * size:
        raise ValueError(
            "apply must treat examples independently, but the output of an example changes with the others in its "
            "batch; use stored statistics in batch normalisation."
        )


def _probe(apply, named):
    finite = jax.tree.map(
        lambda a: jnp.isfinite(a).all() if jnp.issubdtype(a.dtype, jnp.floating) else jnp.array(True), named
    )
    params, x = named["params"], named["x1"]
    rows = np.unique(np.linspace(0, length(x) - 1, _PROBES).astype(int))
    x = jax.tree.map(lambda a: a[rows], x)
    together = apply(params, x)
    alone = jax.vmap(lambda a: apply(params, jax.tree.map(lambda b: b[None], a))[0])(x)
    size, gap = jnp.abs(together).max(), jnp.abs(together - alone).max()
    return finite, jnp.isfinite(together).all(), gap, size


def switch(name, value) -> bool:
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False, got {value!r}.")
    return bool(value)
