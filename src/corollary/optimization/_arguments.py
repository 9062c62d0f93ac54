"""Arguments that all methods share. Plain numbers stay plain, so that they take the precision of the parameters."""

import jax
import jax.numpy as jnp

from corollary._validate import positive, real, within


def step_of(value):
    """A positive number, traced or not, or an Optax schedule (a function of the step)."""
    return value if callable(value) else positive_of("step", value)


def schedule_of(value):
    """The same, as a function of the number of steps made."""
    size = step_of(value)
    return size if callable(size) else lambda count: size


def decay_of(name: str, value):
    """A factor of forgetting: in [0, 1), where 0 remembers nothing."""
    return _plain(value, within(name, real(name, value, ""), 0.0, 1.0, open="high"))


def share_of(name: str, value):
    """A number in [0, 1]."""
    return _plain(value, within(name, real(name, value, ""), 0.0, 1.0))


def offset_of(name: str, value):
    """A number that is zero or more."""
    return _plain(value, within(name, real(name, value, ""), 0.0))


def positive_of(name: str, value):
    """A positive number."""
    return _plain(value, positive(name, real(name, value, "")))


def start_of(problem, start, name: str = "start"):
    """Where to begin: at the problem's own start unless given, a pytree of real arrays of the same shapes."""
    own = jax.tree.map(jnp.asarray, problem.start)
    if not jax.tree.leaves(own) or not all(jnp.issubdtype(a.dtype, jnp.floating) for a in jax.tree.leaves(own)):
        raise TypeError("the start of problem must be a pytree of real arrays, with at least one of them.")
    if start is None:
        return own
    if isinstance(own, jax.Array) and isinstance(start, list | tuple):
        start = jnp.asarray(start)  # numbers in a list are one array
    if jax.tree.structure(start) != jax.tree.structure(own):
        kind = jax.tree.structure(own)
        raise ValueError(f"{name} must be a pytree like the problem's own {kind}, got {jax.tree.structure(start)}.")

    def like(path, own, given):
        given = jnp.asarray(given, own.dtype)
        if given.shape != own.shape:
            where = name + jax.tree_util.keystr(path)
            raise ValueError(f"{where} must have shape {own.shape} like the problem's own, got {given.shape}.")
        return given

    return jax.tree_util.tree_map_with_path(like, own, start)


def asked_for(name: str, value):
    """An extra argument that a transformation cannot do without."""
    if value is None:
        raise TypeError(f"this method's update asks for {name}, which optimization.minimize and nets.fit pass to it.")
    return value


def _plain(value, checked):
    return float(value) if isinstance(value, int | float) else checked
