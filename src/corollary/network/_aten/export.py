"""From a PyTorch module to a graph: exported by PyTorch, then written down as plain data."""

from __future__ import annotations

import logging
import operator
import warnings
from collections import Counter
from collections.abc import Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from corollary.network._aten import (  # noqa: F401  each enters its operators into the table
    activations,
    control,
    creation,
    images,
    indexing,
    layers,
    pointwise,
    products,
    reductions,
    sequences,
    shapes,
)
from corollary.network._aten.graph import Graph, Node, Ref, Tensor, Type, pruned
from corollary.network._aten.table import NotSupported, bound, found


class Exported(NamedTuple):
    """A graph and what stands at its ends.

    `inputs` says of each input whether it is a tensor of the module, and its name or place. `tensors` are those of the
    module, `outputs` what it returns, by name; `changed` are buffers that a call changes. `half` says that something
    is computed in numbers of 16 bits.
    """

    graph: Graph
    inputs: dict[str, tuple[bool, Any]]
    tensors: dict[str, Any]
    outputs: dict[str, Ref]
    changed: tuple[str, ...]
    half: bool


def export(torch, module, args: tuple, kwargs: dict) -> Exported:
    """The graph of a module for inputs of these shapes; the module's tensors, and the inputs, are inputs of it."""
    with _quiet():
        # not strict: PyTorch follows the module by running it, which is quicker and refuses less
        program = torch.export.export(_tensors_only(torch, module), args, kwargs, strict=False)
        _mark_without_gradient(torch, program.graph_module)
        program = program.run_decompositions({})
    graph, returned = _graph(torch, program.graph_module)
    kinds = torch.export.graph_signature
    places = iter(_places(program.call_spec.in_spec, len(args), kwargs))
    inputs = {}
    for spec in program.graph_signature.input_specs:
        given = spec.kind is kinds.InputKind.USER_INPUT
        inputs[getattr(spec.arg, "name", "")] = (not given, next(places) if given else _own(spec.target))
    tensors = {_own(name): t for name, t in {**program.constants, **program.state_dict}.items()}
    pairs = list(zip(program.graph_signature.output_specs, returned, strict=True))
    leaves = [value for spec, value in pairs if spec.kind is kinds.OutputKind.USER_OUTPUT]
    outputs = program.call_spec.out_spec.unflatten(leaves)
    changed = tuple(_own(spec.target) for spec, _ in pairs if spec.kind is kinds.OutputKind.BUFFER_MUTATION)
    found_types = {getattr(node.meta.get("val"), "dtype", None) for node in program.graph.nodes}
    half = not found_types.isdisjoint({torch.float16, torch.bfloat16})
    return Exported(graph, inputs, tensors, outputs, changed, half)


def _tensors_only(torch, module):
    """The module as one that returns its tensors by name: without caches and the like, which PyTorch cannot export."""

    class Tensors(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.module = module

        def forward(self, *args, **kwargs):
            return dict(named(self.module(*args, **kwargs), torch.Tensor))

    return Tensors().eval()


def _own(name):
    """The name of a tensor in the module itself."""
    return name.removeprefix("module.") if name else name


def named(tree, leaf, path=()):
    """The leaves of a module's output by name: keys and numbers of tuples, joined by points; the only one is ''."""
    if isinstance(tree, leaf):
        yield ".".join(path), tree
    elif isinstance(tree, Mapping):
        for key, value in tree.items():
            yield from named(value, leaf, (*path, str(key)))
    elif isinstance(tree, tuple | list):
        names = getattr(tree, "_fields", range(len(tree)))
        for key, value in zip(names, tree, strict=True):
            yield from named(value, leaf, (*path, str(key)))


def complete(graph: Graph) -> Graph:
    """The graph without what no output needs; one sentence if operators in it are missing in the table."""
    graph = pruned(graph)
    missing = Counter(name for name, function in _all_nodes(graph) if function is None)
    if missing:
        uses = ", ".join(f"{name} ({'once' if n == 1 else f'{n} times'})" for name, n in sorted(missing.items()))
        raise ValueError(f"the module uses operators of PyTorch that are not supported: {uses}.")
    return graph


def _all_nodes(graph):
    for node in graph.nodes:
        yield node.operator, node.function
        for _, value in node.arguments:
            if isinstance(value, Graph):
                yield from _all_nodes(value)


def _places(spec, n, kwargs):
    """What stands at each of the exported program's inputs: the number of a positional one, the name of another."""
    args, named_ = spec.unflatten(list(range(n + len(kwargs))))
    places = {i: k for k, i in enumerate(args)} | {i: name for name, i in named_.items()}
    return [places[i] for i in range(len(places))]


def _graph(torch, module) -> tuple[Graph, tuple]:
    inputs, nodes, values, outputs = [], [], {}, ()
    for node in module.graph.nodes:
        if node.op == "placeholder":
            inputs.append(node.name)
            values[node] = Ref(node.name)
        elif node.op == "get_attr":
            inner = getattr(module, node.target)
            values[node] = _graph(torch, inner)[0] if isinstance(inner, torch.nn.Module) else inner
        elif node.op == "output":
            outputs = _plain(torch, node.args[0], values)
        else:
            nodes.append(_node(torch, node, values))
            values[node] = Ref(node.name)
    return Graph(tuple(inputs), tuple(nodes), tuple(outputs)), tuple(outputs)


def _node(torch, node, values) -> Node:
    args, kwargs = _plain(torch, node.args, values), {k: _plain(torch, v, values) for k, v in node.kwargs.items()}
    result = _result(torch, node.meta.get("val"))
    name, overload, schema = _schema(node.target, len(args))
    function = found(name.removeprefix("aten::"), overload)
    arguments = {}
    if function is not None:
        try:
            arguments = bound(name, function, schema, args, kwargs)
        except NotSupported as error:
            name, function = str(error), None
    if function is None and torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()):
        name += ", which draws random numbers in eval mode too"
        name += ": give it training=self.training" if "dropout" in name else ""
    if not arguments:  # what it is made of matters if only to know what is needed
        arguments = {"args": args, **kwargs}
    return Node(node.name, name, function, tuple(arguments.items()), result)


def _schema(target, n):
    """Name, overload, and the arguments with their defaults, of whatever a node calls."""
    if target is operator.getitem:
        return "getitem", "", [("a", False, None), ("b", False, None)]
    schema = getattr(target, "_schema", None)
    if schema is None:  # a higher-order operator
        names = {"cond": ("pred", "true_fn", "false_fn", "operands")}.get(str(target), tuple(map(str, range(n))))
        return str(target), "", [(name, False, None) for name in names]
    arguments = [(a.name, a.has_default_value(), _tuples(a.default_value)) for a in schema.arguments]
    return schema.name, schema.overload_name, arguments


def _tuples(value):
    return tuple(map(_tuples, value)) if isinstance(value, list | tuple) else value


def _plain(torch, value, values):
    """An argument without anything of PyTorch in it."""
    if isinstance(value, torch.fx.Node):
        return values[value]
    if isinstance(value, list | tuple):
        return tuple(_plain(torch, item, values) for item in value)
    if isinstance(value, torch.dtype):
        return _type(value)
    if isinstance(value, bool | int | float | str | None):
        return value
    return str(value)


def _result(torch, value):
    if isinstance(value, torch.Tensor):
        return Tensor(tuple(int(n) for n in value.shape), _type(value.dtype))
    return tuple(_result(torch, item) for item in value) if isinstance(value, list | tuple) else None


def _type(dtype) -> Type:
    if dtype.is_complex:
        raise ValueError("the module computes with complex numbers, which is not supported.")
    return Type("float" if dtype.is_floating_point else str(dtype).removeprefix("torch."))


def _mark_without_gradient(torch, module):
    """What is computed under `torch.no_grad` has no derivative: PyTorch's decomposition would forget that."""
    without = torch.ops.higher_order.wrap_with_set_grad_enabled
    for node in module.graph.nodes:
        if node.op == "get_attr" and isinstance(getattr(module, node.target, None), torch.fx.GraphModule):
            _mark_without_gradient(torch, getattr(module, node.target))
        if node.target is without and node.args[0] is False:
            graph = getattr(module, node.args[1].target).graph
            end = next(n for n in graph.nodes if n.op == "output")
            with graph.inserting_before(end):
                end.args = (tuple(_detached(torch, graph, value) for value in end.args[0]),)
            getattr(module, node.args[1].target).recompile()


def _detached(torch, graph, value):
    if not isinstance(value, torch.fx.Node) or not isinstance(value.meta.get("val"), torch.Tensor):
        return value
    node = graph.call_function(torch.ops.aten.detach.default, (value,))
    node.meta = dict(value.meta)
    return node


@contextmanager
def _quiet():
    """Without what the exporter has to say about itself."""
    loggers = [logging.getLogger(name) for name in ("torch", "torch.export", "torch.fx", "torch._dynamo")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
