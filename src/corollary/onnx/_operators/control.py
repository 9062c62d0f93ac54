"""Branches and loops: resolved while tracing where that is possible, otherwise JAX's own."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from corollary.onnx._table import NotStatic, OnnxError, known, namespace, operator

#: loops of at most so many steps are written out, in which shapes may change from step to step
WRITTEN_OUT = 8


@operator("If")
def branch(node, condition):
    """One of two graphs; both are traced where the condition is only known when the program runs."""
    if known(condition):
        return tuple(node.subgraph(node["then_branch" if np.asarray(condition).reshape(()) else "else_branch"]))
    graphs = node["then_branch"], node["else_branch"]
    then, other = (lambda graph=graph: tuple(jnp.asarray(v) for v in node.subgraph(graph)) for graph in graphs)
    if shapes(then) != shapes(other):
        raise OnnxError("the two branches of an If give values of other shapes or types, so it cannot be compiled.")
    return jax.lax.cond(jnp.asarray(condition).reshape(()), then, other)


def shapes(function, *arguments):
    return [(each.shape, each.dtype) for each in jax.tree.leaves(jax.eval_shape(function, *arguments))]


@operator("Loop")
def loop(node, count, condition, *state):
    """A graph run again and again on a state; what it gives beyond the state is stacked, step by step."""
    body, carried = node["body"], len(state)

    def step(i, condition, state):
        again, *rest = node.subgraph(body, i, condition, *state)
        return again, rest[:carried], rest[carried:]

    if known(count) and (condition is None or known(condition)):
        steps = None if count is None else int(np.asarray(count).reshape(()))
        if steps is None or steps > WRITTEN_OUT:
            compiled = scanned(step, steps, condition, state)
            if compiled is not None:
                return compiled
        try:
            return written_out(step, steps, condition, list(state))
        except NotStatic:  # it may end early, which is seen when the program runs
            pass
    return while_loop(step, count, condition, state)


def written_out(step, steps, condition, state):
    """The steps one after another, each with its own shapes and with a counter that is known."""
    again, collected, i = condition, None, 0
    while (steps is None or i < steps) and (again is None or bool(np.asarray(settled(again)).reshape(()))):
        again, state, more = step(np.asarray(i, np.int64), np.asarray(True), state)
        collected = [[] for _ in more] if collected is None else collected
        for values, value in zip(collected, more, strict=True):
            values.append(value)
        i += 1
    if collected is None:  # of no steps, arrays without entries
        more = jax.eval_shape(
            lambda: tuple(map(jnp.asarray, step(np.asarray(0, np.int64), np.asarray(True), state)[2]))
        )
        return (*state, *(np.zeros((0, *value.shape), value.dtype) for value in more))
    return (*state, *(namespace(*values).stack(values) for values in collected))


def settled(again):
    if not known(again):
        raise NotStatic("a Loop must know whether it goes on.")
    return again


def scanned(step, steps, condition, state):
    """The loop as a scan; None if it is short, changes shapes, or needs values of its steps while it is traced."""
    if any(not hasattr(value, "shape") for value in state) or (condition is not None and not np.asarray(condition)):
        return None
    ends = []

    def body(state, i):
        again, state, more = step(i, np.asarray(True), state)
        ends.append(again)
        return tuple(jnp.asarray(v) for v in state), tuple(more)

    first = tuple(jnp.asarray(value) for value in state)
    try:
        after, _ = jax.eval_shape(body, first, jnp.asarray(0))
    except OnnxError:
        return None
    if [(a.shape, a.dtype) for a in after] != [(b.shape, b.dtype) for b in first]:
        return None
    never_ends = known(ends[0]) and bool(np.asarray(ends[0]).reshape(()))
    if steps is None and never_ends:
        raise OnnxError("a Loop of the ONNX graph has no number of steps, and no condition that ends it.")
    if steps is None or not never_ends:
        steps = counted(step, steps, condition, state)
        if steps is None or steps <= WRITTEN_OUT:
            return None
    state, more = jax.lax.scan(body, first, jnp.arange(steps))
    return (*state, *more)


def counted(step, most, condition, state) -> int | None:
    """The number of steps until a loop ends by itself; None if only a program that runs can tell."""
    taken = 0

    def follow():
        nonlocal taken
        again, values = condition, list(state)
        while (most is None or taken < most) and (again is None or bool(np.asarray(settled(again)).reshape(()))):
            again, values, _ = step(np.asarray(taken, np.int64), np.asarray(True), values)
            taken += 1

    try:
        jax.eval_shape(follow)
    except NotStatic:
        return None
    return taken


def while_loop(step, count, condition, state):
    """A loop whose number of steps is only known when the program runs; it cannot collect values."""
    state = tuple(jnp.asarray(value) for value in state)
    again = jnp.asarray(True if condition is None else condition).reshape(())

    def goes_on(carry):
        i, again, _ = carry
        return again if count is None else again & (i < jnp.asarray(count).reshape(()))

    def body(carry):
        i, again, state = carry
        again, state, more = step(i, again, state)
        if more:
            raise NotStatic("a Loop that collects values must know how often it runs in a graph that is compiled.")
        return i + 1, jnp.asarray(again).reshape(()), tuple(jnp.asarray(v) for v in state)

    return jax.lax.while_loop(goes_on, body, (jnp.asarray(0), again, state))[2]


@operator("Scan")
def scan_by_batch(node, lengths, *values):
    """Version 8: the first axis is one of examples, the second one of time."""
    if lengths is not None:
        raise node.refuse("with lengths of sequences")
    m, directions = node["num_scan_inputs"], node["directions"]

    def one(*values):
        return scan_of(node, values, m, directions, None, None, None)

    results = [one(*(value[i] for value in values)) for i in range(values[0].shape[0])]
    return tuple(namespace(*column).stack(column) for column in zip(*results, strict=True))


@operator("Scan", since=9)
def scan(node, *values):
    return scan_of(
        node,
        values,
        node["num_scan_inputs"],
        node["scan_input_directions"],
        node["scan_output_directions"],
        node["scan_input_axes"],
        node["scan_output_axes"],
    )


def scan_of(node, values, m, directions, out_directions, axes, out_axes):
    """A graph run along an axis of some inputs, with a state; its further outputs are stacked."""
    state, xs = values[: len(values) - m], values[len(values) - m :]
    xs = [jnp.moveaxis(jnp.asarray(x), axis, 0) for x, axis in zip(xs, axes or [0] * m, strict=True)]
    xs = [x[::-1] if back else x for x, back in zip(xs, directions or [0] * m, strict=True)]

    def body(state, slices):
        results = node.subgraph(node["body"], *state, *slices)
        return tuple(jnp.asarray(v) for v in results[: len(state)]), tuple(
            jnp.asarray(v) for v in results[len(state) :]
        )

    first = tuple(jnp.asarray(value) for value in state)
    state, ys = jax.lax.scan(body, first, tuple(xs))
    ys = [y[::-1] if back else y for y, back in zip(ys, out_directions or [0] * len(ys), strict=True)]
    ys = [jnp.moveaxis(y, 0, axis) for y, axis in zip(ys, out_axes or [0] * len(ys), strict=True)]
    return (*state, *ys)
