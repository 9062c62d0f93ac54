"""A lint over all claims: checks that could not fail, and controls that only move a bound.

It reads the sources of the claims and finds three things. A *measured* side in which nothing was measured: numbers,
parameters of the claim, and NumPy or JAX functions of them. A *bound* (or prediction) that is computed from the
measured expression itself. A *control* with the measured side of a plain check and its bound, up to a constant factor.
Local names that are assigned once stand for what they were assigned. Whatever is right all the same is listed in
`RIGHT`, with the reason.
"""

import ast
import copy
from pathlib import Path
from typing import NamedTuple

import pytest

import corollary.claims

ROOT = Path(corollary.claims.__file__).parent

#: The kinds of checks, and the places of the measured side and of the bound among their arguments.
SIDES = {
    "equal": (1, 2),
    "at_most": (1, 2),
    "at_least": (1, 2),
    "monotone": (1, None),
    "rate": (2, 3),
    "estimate": (1, 2),
    "frequency_at_most": (1, 2),
    "same_law": (1, 2),
}
MODULES = {"jnp", "np", "jax", "math"}
BUILTINS = {"abs", "bool", "float", "int", "len", "list", "max", "min", "range", "round", "sorted", "sum", "tuple"}

#: Checks that the lint finds and that are right, by the name of the claim's function and of the check.
RIGHT = {
    ("next_token", "attention"): "the tokens are sent again: another program, whose cost is counted",
    ("hinges", "Exercise 5.5"): "a network of one unit",
    ("output_sizes", "windows counted"): "NumPy counts the windows",
    ("taylor", "remainder of order 3"): "the remainder of this function is the function",
    ("normalised_tokens_lie_on_an_ellipsoid", "after -3 x + 2"): "tokens turned round, normalised again",
    ("ones", "gradient"): "two tensors made alike, of which one is detached later",
    ("ones", "the values agree"): "one program run with and without recording",
    ("staircase", "M times the loss is whole"): "whole numbers are those that rounding leaves alone",
    ("toeplitz_form", "matrix against the nearest convolution"): "the distance to a space, by least squares",
    ("excess_below_itself", "excess after the step, from itself"): "the excess is printed on both sides",
    ("output_sizes", "windows counted, all settings"): "NumPy counts the windows",
    ("bernstein_inequality", "tail of a single centred 0-1 variable"): "its tail is its parameter",
    ("definite_by_eigenvalues", "quadratic form at (1, 1)"): "a form evaluated at a point",
    ("span", "the two worked products"): "two products that were carried out, against the text's numbers",
    ("operator_norms", "greatest entry of a product"): "a product that was carried out",
    ("two_dice", "probability of each sum"): "all outcomes are counted",
    ("open_and_closed", "points of 1/n within ε of 0"): "points are counted",
    ("open_and_closed", "points of 1/n within 1/13 of 1/3, itself apart"): "points are counted",
    ("deterministic_weights", "mean slope of a logistic unit"): "an integral, summed on a grid",
    ("deterministic_weights", "mean slope, large weights"): "an integral, summed on a grid",
    ("forward_recursion", "variance of a product"): "the variance of a law on a few points, summed",
    ("arctan_against_scaled_tanh", "difference in modulus"): "elementary functions on a fine grid",
    ("arctan_against_scaled_tanh", "largest difference"): "elementary functions on a fine grid",
    ("arctan_against_scaled_tanh", "where"): "elementary functions on a fine grid",
    ("tanh_is_a_logistic_function", "tanh z"): "JAX's tanh, against our logistic function",
    ("learning_loop", "the step is below the critical one"): "a premise, which the data could break",
    ("clipping", "ε of the four fixed points"): "a premise of the instances",
    ("recorded_graph", "gradient in closed form"): "another graph, in which one branch is detached",
    (
        "printed_shapes",
        "shape of S times W transposed, where Z is 2 × 2",
    ): "the shape of a product that was carried out",
    (
        "printed_shapes",
        "shape of W transposed times S, where Z is 2 × 2",
    ): "the shape of a product that was carried out",
    ("definite_by_eigenvalues", "least form: least eigenvalue of the symmetric part"): "a form on a circle of points",
    ("arccos_as_printed", "error of the corrected sum"): "the series is summed",
    ("arccos_as_printed", "largest error of the printed sum"): "the printed series is summed",
    ("discriminant_is_positive", "discriminant, positive"): "the printed formula on one data set",
    ("discriminant_is_positive", "discriminant, not negative"): "the printed formula on one data set",
    (
        "discriminant_is_positive",
        "discriminant: the squared difference of the eigenvalues",
    ): "the formula, against eigenvalues that LAPACK computes",
}

LITERAL, CONTAINED, MOVED = "nothing was measured", "the bound contains the measured side", "a bound that is moved"


class Hit(NamedTuple):
    claim: str
    check: str
    what: str


class Sides(NamedTuple):
    kind: str
    measured: ast.expr
    bound: ast.expr | None


def _assigned(function: ast.FunctionDef) -> tuple[dict[str, ast.expr], set[str]]:
    """The local names that are assigned once, by `name = expression`, and those that stand for several values."""
    times: dict[str, int] = {}
    values: dict[str, ast.expr] = {}
    varying: set[str] = set()
    own = list(_own(function))
    inside = {id(n) for c in own if isinstance(c, ast.comprehension) for n in ast.walk(c.target)}
    for node in own:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and id(node) not in inside:
            times[node.id] = times.get(node.id, 0) + 1
        elif isinstance(node, ast.For):
            varying |= {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        elif isinstance(node, ast.Attribute) and node.attr in ("append", "extend", "add", "update", "insert"):
            varying |= _base(node.value)  # a list that is filled
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            varying |= _base(node.value)  # an array that is written to
    for node in own:
        if not (isinstance(node, ast.Assign) and len(node.targets) == 1):
            continue
        target, value = node.targets[0], node.value
        pairs = [(target, value)]
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
            pairs = list(zip(target.elts, value.elts, strict=True))
        values |= {t.id: v for t, v in pairs if isinstance(t, ast.Name)}
    varying |= {name for name, count in times.items() if count > 1}
    return {name: value for name, value in values.items() if name not in varying}, varying


def _base(node: ast.expr) -> set[str]:
    """The name that is indexed."""
    while isinstance(node, ast.Subscript):
        node = node.value
    return {node.id} if isinstance(node, ast.Name) else set()


def _own(function: ast.FunctionDef):
    """The nodes of a function without those of the functions inside it."""
    todo = list(function.body)
    while todo:
        node = todo.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.Lambda | ast.ClassDef):
            todo.extend(ast.iter_child_nodes(node))


class _Expand(ast.NodeTransformer):
    """Puts what a name was assigned in the place of the name, and so on."""

    def __init__(self, values: dict[str, ast.expr]):
        self.values, self.done = values, {}

    def visit_Name(self, node: ast.Name):
        if not isinstance(node.ctx, ast.Load) or node.id not in self.values:
            return node
        if node.id not in self.done:
            self.done[node.id] = node  # a name does not stand for itself
            self.done[node.id] = self.visit(copy.deepcopy(self.values[node.id]))
        return self.done[node.id]


def _same(a, b) -> bool:
    """Whether two pieces of syntax are one."""
    if isinstance(a, ast.AST):
        return type(a) is type(b) and all(_same(getattr(a, f, None), getattr(b, f, None)) for f in a._fields)
    if isinstance(a, list):
        return isinstance(b, list) and len(a) == len(b) and all(map(_same, a, b))
    return type(a) is type(b) and a == b


def _nothing_measured(measured: ast.expr, parameters: set[str]) -> bool:
    """Whether an expression, expanded, holds nothing but numbers, parameters and functions of NumPy or JAX of them."""
    nodes = list(ast.walk(measured))
    if any(isinstance(n, ast.Lambda | ast.Starred) for n in nodes):
        return False
    if any(isinstance(n, ast.Attribute) and n.attr in ("random", "linalg", "vmap", "jit", "grad") for n in nodes):
        return False
    return _names(measured) <= MODULES | BUILTINS | parameters


def _names(expression: ast.expr) -> set[str]:
    """The names in an expression, without those of its own comprehensions."""
    nodes = [n for n in ast.walk(expression) if isinstance(n, ast.Name)]
    return {n.id for n in nodes} - {n.id for n in nodes if isinstance(n.ctx, ast.Store)}


def _contains(bound: ast.expr, measured: ast.expr) -> bool:
    """Whether the measured expression is an operand in the bound, and not only indexed or reduced there.

    `x` against `x[0]`, `x.mean()` or `x.T` says that the entries agree among themselves, which can fail.
    """
    if isinstance(measured, ast.Constant):
        return False
    if _same(bound, measured):
        return True
    if isinstance(bound, ast.Call) and isinstance(bound.func, ast.Attribute) and bound.func.attr.endswith("_like"):
        return False  # its shape only
    if isinstance(bound, ast.Attribute) and bound.attr in ("size", "shape", "ndim", "dtype"):
        return False
    parts = ast.iter_child_nodes(bound)
    if isinstance(bound, ast.Subscript | ast.Attribute):
        parts = (p for p in parts if not _same(p, measured))
    return any(_contains(p, measured) for p in parts)


def _core(expression: ast.expr) -> ast.expr:
    """The expression without constant factors."""
    if isinstance(expression, ast.UnaryOp) and isinstance(expression.op, ast.USub):
        return _core(expression.operand)
    if isinstance(expression, ast.BinOp) and isinstance(expression.op, ast.Mult | ast.Div):
        if isinstance(_core(expression.right), ast.Constant):
            return _core(expression.left)
        if isinstance(_core(expression.left), ast.Constant) and isinstance(expression.op, ast.Mult):
            return _core(expression.right)
    return expression


def _sides(call: ast.AST, expand: _Expand) -> Sides | None:
    if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in SIDES):
        return None
    if any(isinstance(a, ast.Starred) for a in call.args):
        return None  # a pair made elsewhere
    at, to = SIDES[call.func.id]
    if len(call.args) <= max(at, to or 0):
        return None
    bound = None if to is None else expand.visit(copy.deepcopy(call.args[to]))
    return Sides(call.func.id, expand.visit(copy.deepcopy(call.args[at])), bound)


def _moved(control: Sides, plain: Sides) -> bool:
    if control.kind != plain.kind or control.bound is None or plain.bound is None:
        return False
    bounds = _core(control.bound), _core(plain.bound)
    constant = all(isinstance(b, ast.Constant) for b in bounds)
    return _same(_core(control.measured), _core(plain.measured)) and (constant or _same(*bounds))


def hits(source: str, module: str) -> list[Hit]:
    """What the lint finds in the claims of a module."""
    return [hit for node in ast.parse(source).body if _is_claim(node) for hit in _hits_of(node, module)]


def _is_claim(node: ast.stmt) -> bool:
    made = node.decorator_list if isinstance(node, ast.FunctionDef) else []
    return any(isinstance(d, ast.Call) and isinstance(d.func, ast.Name) and d.func.id == "claim" for d in made)


def _hits_of(function: ast.FunctionDef, module: str):
    (values, varying), name = _assigned(function), f"{module}.{function.name}"
    expand = _Expand(values)
    parameters = {a.arg for a in function.args.kwonlyargs}
    plain, controls = [], []
    for node in _own(function):
        if not (isinstance(node, ast.Yield) and isinstance(node.value, ast.Call)):
            continue
        call, role = node.value, "plain"
        if isinstance(call.func, ast.Name) and call.func.id in ("control", "printed") and call.args:
            call, role = call.args[-1], call.func.id
        sides = _sides(call, expand)
        if sides is None:
            continue
        check = call.args[0].value if isinstance(call.args[0], ast.Constant) else ast.unparse(call.args[0])
        if _nothing_measured(sides.measured, parameters):
            yield Hit(name, check, LITERAL)
        elif sides.bound is not None and _contains(sides.bound, sides.measured):
            yield Hit(name, check, CONTAINED)
        # a name that stands for several values does not tell which of them was compared
        if not _names(sides.measured) & varying:
            {"plain": plain, "control": controls}.get(role, []).append((check, sides))
    yield from (Hit(name, check, MOVED) for check, s in controls if any(_moved(s, other) for _, other in plain))


def _all_hits() -> list[Hit]:
    files = sorted(ROOT.rglob("*.py"))
    return [h for f in files for h in hits(f.read_text(), ".".join(f.relative_to(ROOT).with_suffix("").parts))]


def test_every_check_measures_something_and_every_control_breaks_a_premise():
    found = _all_hits()
    # claims may move to another file: the function and the check name them
    known = {(h.claim.rpartition(".")[2], h.check): h for h in found}
    unknown = [known[k] for k in known if k not in RIGHT]
    assert not unknown, "\n".join(f"{h.claim}, {h.check!r}: {h.what}" for h in unknown)
    gone = [k for k in RIGHT if k not in known]
    assert not gone, f"These are no longer found; take them off the list: {gone}"


CLAIM = """
@claim(rows=("B01.01",))
def example(key, *, n: Size = 3):
    x = measure(key)
    half = x / 2
    grid = jnp.linspace(0, 1, n)
    {}
"""


@pytest.mark.parametrize(
    ("body", "what"),
    [
        ("yield at_most('a', 1.0, bound(x))", LITERAL),
        ("yield at_most('a', grid**2, bound(x))", LITERAL),
        ("yield at_most('a', x, 2 * x)", CONTAINED),
        ("yield at_most('a', x, 4 * half)", CONTAINED),
        ("yield printed(equal('a', x, jnp.sqrt(x)))", CONTAINED),
        ("yield at_most('a', x, 3.0); yield control('p', at_most('b', x, 2.0))", MOVED),
        ("yield equal('a', x, f(n)); yield control('p', equal('b', x, 0.9 * f(n)))", MOVED),
        ("yield equal('a', x, f(n)); yield control('p', equal('b', -x, f(n)))", MOVED),
    ],
)
def test_the_lint_finds(body, what):
    assert [h.what for h in hits(CLAIM.format(body), "room.file")] == [what]


@pytest.mark.parametrize(
    "body",
    [
        "yield at_most('a', x, f(n))",
        "yield equal('a', x, x[0])",
        "yield equal('a', x, x.mean())",
        "yield equal('a', x, jnp.zeros_like(x))",
        "yield equal('a', x[1:], 2 * x[:-1])",
        "yield equal('a', jax.random.normal(jax.random.key(0)), 0.0)",
        "yield at_most('a', x, f(n)); yield control('p', at_most('b', other(key), f(n)))",
    ],
)
def test_the_lint_leaves_alone(body):
    assert hits(CLAIM.format(body), "room.file") == []
