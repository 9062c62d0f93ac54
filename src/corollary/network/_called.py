"""How a module of another library is called, and which of its outputs is taken: the same for all libraries."""

import jax
import jax.numpy as jnp
import numpy as np

from corollary._text import first_line


def called(function, x, **mode):
    """`function` of one input; of the entries of a tuple, in turn; of the entries of a dictionary, by name."""
    if isinstance(x, tuple):
        return function(*x, **mode)
    if isinstance(x, dict):
        return function(**x, **mode)
    return function(x, **mode)


def chosen(out, output=None):
    """The output that `output` names, a key or a number, the only one if there is one; in 32 bits at least."""
    return raised(_chosen(out, output))


def raised(tree):
    """Floating-point numbers of 16 bits in 32: what is looked at here needs the digits."""
    return jax.tree.map(lambda a: a.astype(np.float32) if _half(a) else a, tree)


def notes_on(*trees) -> tuple[str, ...]:
    """A sentence if there was something to be raised."""
    kinds = sorted({str(leaf.dtype) for tree in trees for leaf in jax.tree.leaves(tree) if _half(leaf)})
    return (f"parameters in {' and '.join(kinds)} were raised to float32.",) if kinds else ()


def _half(leaf) -> bool:
    return hasattr(leaf, "dtype") and jnp.issubdtype(leaf.dtype, np.floating) and leaf.dtype.itemsize < 4


def _chosen(out, output):
    named = {jax.tree_util.keystr(path, simple=True, separator="."): leaf for path, leaf in _leaves(out)}
    if not named:
        raise ValueError("the network returns nothing.")
    if output is None and len(named) == 1:
        return next(iter(named.values()))
    if "" in named:
        raise ValueError(f"the network has one output, there is none called {output!r}: leave out output=.")
    if output is None:
        raise ValueError(f"the network has several outputs, {', '.join(named)}: choose one of them with output=.")
    if str(output) not in named:
        raise ValueError(f"output must be one of {', '.join(named)}, got {output!r}.")
    return named[str(output)]


def example_of(example):
    """The example with arrays of numbers in it, of whatever library; one sentence if it has something else."""

    def leaf(path, value):
        where = "example" + jax.tree_util.keystr(path)
        value = value.detach().cpu() if hasattr(value, "detach") else value
        try:
            array = np.asarray(value)
        except Exception:
            array = np.asarray(None)
        if array.dtype.kind not in "fiubV" or isinstance(value, str | bytes):
            raise TypeError(f"{where} must be an array of numbers, got {type(value).__name__}.")
        return jnp.asarray(array)

    if not jax.tree.leaves(example):
        raise TypeError("example must be one example, an array or a tuple or dictionary of arrays, got none.")
    return jax.tree_util.tree_map_with_path(leaf, example)


def tried(network, example, what: str):
    """`network`, tried out on the shapes of an example, so that whatever does not fit is said now.

    `what` is the word for what it was made of.
    """
    example = example_of(example)
    try:
        out = jax.eval_shape(network, example)
    except Exception as error:
        shapes = ", ".join(str((1, *a.shape) if network.batched else a.shape) for a in jax.tree.leaves(example))
        how = "one example, as a batch" if network.batched else "one example"
        raise ValueError(f"the {what} failed on {how} of shape {shapes}: {_said(error)}.") from error
    if not jnp.issubdtype(out.dtype, np.floating):
        raise ValueError(f"the {what} must return real floating-point numbers, got dtype {out.dtype}.")
    return network


def _leaves(out):
    return jax.tree_util.tree_leaves_with_path(out)


def _said(error) -> str:
    """Sentences of ours as they are, those of others with their kind."""
    ours = isinstance(error, ValueError) and str(error).startswith(("the network ", "output must "))
    return str(error).rstrip(".") if ours else first_line(error)
