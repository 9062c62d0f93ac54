"""Code versions: an edit makes stale what uses it, and nothing else."""

import ast
import sys
import textwrap

import pytest

from corollary import ROOMS
from corollary.evidence import claims
from corollary.evidence._code import sources
from corollary.evidence._ledger import outside
from corollary.evidence._run import measure
from corollary.evidence._staleness._closure import Closures
from corollary.evidence._staleness._sources import Sources, _table
from corollary.evidence._staleness._tracer import Tracer


def house(tmp_path, **files):
    """A package `h` of these files, `a__b` for a/b.py, read as ours is."""
    for name, text in {"__init__": "", **files}.items():
        path = tmp_path / "h" / (name.replace("__init__", "\0").replace("__", "/").replace("\0", "__init__") + ".py")
        if name.endswith("_pyi"):
            path = path.with_name(path.name.removesuffix("_pyi.py") + ".pyi")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
    return Sources({"h": tmp_path / "h"})


def reached(sources, unit="h.use:start"):
    """What a definition reaches, as `module:name` without the package's own name."""
    found = sources.closures.closure([tuple(unit.split(":"))])
    return {f"{module.removeprefix('h.')}:{name}" for module, name in found} - {unit.removeprefix("h.")}


MATH = """
    SCALE = 2.0
    OTHER = 3.0
    def twice(x): return SCALE * x
    def thrice(x): return OTHER * x
    class Line:
        slope = SCALE
        def at(self, x): return thrice(x)
    """


@pytest.mark.parametrize(
    ("use", "expected"),
    [
        ("from h.math import twice\ndef start(): return twice(1)", {"math:twice", "math:SCALE"}),
        ("from h import math\ndef start(): return math.twice(1)", {"math:twice", "math:SCALE"}),
        ("import h.math\ndef start(): return h.math.twice(1)", {"math:twice", "math:SCALE"}),
        ("import h.math as m\ndef start(): return m.SCALE", {"math:SCALE"}),
        ("from .math import thrice as t\ndef start(): return t(1)", {"math:thrice", "math:OTHER"}),
        ("from h import math\nm = math\ndef start(): return m.SCALE", {"math:SCALE"}),
        ("def start():\n    from h.math import twice as f\n    return f(1)", {"math:twice", "math:SCALE"}),
        ("def start():\n    import h.math as m\n    return lambda: m.OTHER", {"math:OTHER"}),
        (
            "from h.math import Line\ndef start(): return Line()",
            {"math:Line", "math:thrice", "math:SCALE", "math:OTHER"},
        ),
        # a module that is handed on means all of it
        (
            "from h import math\ndef start(): return vars(math)",
            {"math:*", "math:Line", "math:twice", "math:thrice", "math:SCALE", "math:OTHER"},
        ),
        # what is local hides what is global, and only where it is local
        ("from h.math import twice\ndef start(twice): return twice(1)", set()),
        ("from h.math import twice\ndef start():\n    twice = 1\n    return lambda: twice", set()),
        ("from h.math import SCALE\ndef start(): return [SCALE for SCALE in ()]", set()),
        ("from h.math import SCALE\ndef start(): return [SCALE for SCALE in SCALE]", {"math:SCALE"}),
        ("from h.math import SCALE\ndef start(x=SCALE): return x", {"math:SCALE"}),
        ("from h.math import SCALE\nclass start:\n    SCALE = 1\n    def f(self): return SCALE", {"math:SCALE"}),
        ("from h.math import SCALE\nclass start:\n    SCALE: int = 1\n    def f(self): return self.SCALE", set()),
        # annotations compute nothing
        ("from h.math import Line\ndef start(x: Line) -> Line: return x", set()),
        # a decorator of ours is called
        ("from h.math import twice\n@twice\ndef start(): pass", {"math:twice", "math:SCALE"}),
        # and a helper of the same file reaches further
        ("from h.math import twice\ndef helper(): return twice\ndef start(): helper()", None),
    ],
)
def test_what_a_definition_reaches(tmp_path, use, expected):
    found = reached(house(tmp_path, math=MATH, use=use))
    assert found == ({"use:helper", "math:twice", "math:SCALE"} if expected is None else expected)


LAZY = "from lazy_loader import attach_stub\n__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)\n"
EAGER = "from h.rooms.line import line\nfrom h.rooms import curve\nfrom h.rooms.curve import bend\n"
STUB = "from . import curve as curve\nfrom .curve import bend as bend\nfrom .line import line as line\n"


@pytest.mark.parametrize(
    "package", [{"rooms____init__": EAGER}, {"rooms____init__": LAZY, "rooms____init___pyi": STUB}]
)
@pytest.mark.parametrize(
    ("use", "expected"),
    [
        # `line` is a function, and the module it lies in: the table says which is meant
        ("from h.rooms import line\ndef start(): return line()", {"rooms.line:line"}),
        ("from h import rooms\ndef start(): return rooms.line()", {"rooms.line:line"}),
        ("from h.rooms.line import other\ndef start(): return other()", {"rooms.line:other"}),
        ("from h.rooms import curve\ndef start(): return curve.bend()", {"rooms.curve:bend"}),
        ("from h.rooms import curve as c\ndef start(): return c.flat()", {"rooms.curve:flat"}),
    ],
)
def test_tables_of_packages(tmp_path, package, use, expected):
    line, curve = "def line(): pass\ndef other(): pass\n", "def bend(): pass\ndef flat(): pass\n"
    sources = house(tmp_path, rooms__line=line, rooms__curve=curve, use=use, **package)
    assert reached(sources) == expected
    (tmp_path / "h" / "use.py").write_text("from h import rooms\ndef start(name): return getattr(rooms, name)")
    whole = reached(Sources(sources.roots))
    assert {"rooms.line:line", "rooms.line:other", "rooms.curve:bend", "rooms.curve:flat"} <= whole


@pytest.mark.parametrize(
    "registry",
    [
        "TABLE = {}\ndef register(name):\n    def keep(f):\n        TABLE[name] = f\n        return f\n    return keep",
        "TABLE = []\ndef register(name):\n    return lambda f: TABLE.append(f)",
        "TABLE = {}\ndef register(name):\n    return lambda f: TABLE.setdefault(name, []).append(f)",
    ],
)
@pytest.mark.parametrize(
    "entry",
    ["@register('a')\ndef method(): pass", "def method(): pass\nregister('a')(method)", "method = register(1)(2)"],
)
def test_a_table_means_what_was_registered_in_it(tmp_path, registry, entry):
    sources = house(
        tmp_path,
        registry=registry + "\ndef look(name): return TABLE[name]\ndef idle(): pass\n",
        methods="from h.registry import register\n" + entry,
        use="from h.registry import look, idle\ndef start(): return look('a')\ndef other(): return idle()",
    )
    assert "methods:method" in reached(sources)
    assert reached(sources, "h.use:other") == {"registry:idle"}


def test_methods_that_decorate_and_classes_that_hear_of_their_subclasses(tmp_path):
    sources = house(
        tmp_path,
        rule="import jax\n@jax.custom_jvp\ndef f(x): return x\n@f.defjvp\ndef f_jvp(p, t): return p, t\n",
        base="class Base:\n    known = []\n    def __init_subclass__(cls): Base.known.append(cls)\n",
        child="from h.base import Base\nclass Child(Base): pass\n",
        use="from h.rule import f\nfrom h.base import Base\ndef start(): return f(1)\ndef other(): return Base.known",
    )
    assert reached(sources) == {"rule:f", "rule:f_jvp"}
    assert "child:Child" in reached(sources, "h.use:other")


DOORS = """
    def onnx(): return 1
    def torch(): return onnx()
    class Network:
        @classmethod
        def from_onnx(cls): return onnx()
        @classmethod
        def from_torch(cls): return torch()
    class Wider(Network): pass
    """


@pytest.mark.parametrize(
    ("use", "expected"),
    [
        ("def start(): return Network()", set()),
        ("def start(): return Network.from_onnx()", {"doors:onnx"}),
        ("def start(): return Wider.from_torch()", {"doors:Wider", "doors:torch", "doors:onnx"}),
        ("def make(kind): return kind.from_onnx()\ndef start(): return make(Network)", {"use:make", "doors:onnx"}),
        ("def start(): return getattr(Network, 'from_torch')()", {"doors:torch", "doors:onnx"}),
    ],
)
def test_a_class_method_counts_where_it_is_named(tmp_path, use, expected):
    sources = house(tmp_path, doors=DOORS, use=f"from h.doors import Network, Wider\n{use}")
    assert reached(sources) == {"doors:Network", *expected}


def test_stars_effects_and_names_from_nowhere(tmp_path):
    sources = house(
        tmp_path,
        loud="import os\nos.environ['X'] = '1'\ndef calm(): pass\n",
        star="def a(): pass\ndef b(): pass\n",
        odd="globals()['made'] = 1\ndef other(): pass\n",
        use="""
            from h.loud import calm
            from h.star import *
            from h import odd
            def start(): return calm()
            def starred(): return a()
            def strange(): return odd.made
            def counted(): return len([])
            """,
    )
    assert "loud:" in reached(sources)  # imported with it, whoever uses it
    assert {"star:a", "star:b"} <= reached(sources, "h.use:starred")
    assert "odd:other" in reached(sources, "h.use:strange")
    assert not any(unit.startswith("star:") for unit in reached(sources, "h.use:counted"))


def test_what_counts_and_what_does_not(tmp_path):
    first = (
        'import numpy as np\nfrom h.marks import implements\n@implements("A")\ndef start(x):\n    return np.sum(x)\n'
    )
    same = [
        first.replace('"A"', '"A", "B"'),
        first.replace("    return", '    """Said at length."""\n    return'),
        first.replace("    return", "    # said in passing\n\n    return"),
        first + "\n\ndef other(): pass\n",
    ]
    other = [
        first.replace("np.sum", "np.max"),
        first.replace("import numpy as np", "import jax.numpy as np"),
        first.replace("start(x)", "start(x, y=1)"),
    ]
    marks = "def implements(*rows): return lambda f: f\n"

    def version(text):
        return house(tmp_path, use=text, marks=marks).closures.version([("h.use", "start")])

    # the mark is ours to ignore under its own name only
    assert len({version(text) for text in [first, *same]}) == 1
    assert len({version(text) for text in [first, *other]}) == 1 + len(other)


def test_data_beside_a_module_counts_for_it(tmp_path):
    use = "def start(): pass"

    def versions():
        sources = house(tmp_path, a__use=use, b__use=use, a____init__="", b____init__="")
        return [sources.closures.version([(f"h.{place}.use", "start")]) for place in "ab"]

    before = versions()
    (tmp_path / "h" / "a" / "table.tsv").write_text("1\t2\n")
    after = versions()
    assert after[0] != before[0]
    assert after[1] == before[1]


def test_claims_are_free_to_change_their_rows_and_their_words(tmp_path):
    text = '@claim(rows=("M02.01",), erratum="Off by one.")\ndef start(key):\n    """A.\n\n    B."""\n    yield 1\n'

    def version(text):
        return house(tmp_path, use=text).closures.version([("h.use", "start")])

    assert version(text.replace("M02.01", "M02.02")) == version(text.replace("by one", "by two")) == version(text)
    assert version(text.replace(', erratum="Off by one."', "")) != version(text)


def test_tables_are_kept_under_the_digest_of_their_file(tmp_path, monkeypatch):
    monkeypatch.setenv("COROLLARY_CACHE", str(tmp_path / "cache"))
    house(tmp_path, a="x = 1", b="y = 1").tables  # noqa: B018
    read = []
    monkeypatch.setattr("corollary.evidence._staleness._sources._table", lambda module, file: read.append(module) or {})
    house(tmp_path, b="y = 2").tables  # noqa: B018
    assert read == ["h.b"]
    for file in (tmp_path / "cache").iterdir():
        file.write_text("{broken")
    house(tmp_path).tables  # noqa: B018
    assert sorted(read[1:]) == ["h", "h.a", "h.b"]


def test_a_file_that_cannot_be_parsed_is_read_all_the_same(tmp_path):
    first = house(tmp_path, use="def start(: pass").closures.version([("h.use", "*")])
    assert first != house(tmp_path, use="def start(: ...").closures.version([("h.use", "*")])


def test_the_tracer_sees_calls_in_threads_and_not_what_an_import_runs(tmp_path, monkeypatch):
    sources = house(
        tmp_path,
        tools="def used(): return 1\ndef unused(): return 2\nclass Box:\n    def get(self): return (lambda: 3)()\n",
        late="def made(): return 4\nVALUE = made()\ndef read(): return VALUE\n",
        use="""
            import threading
            from h.tools import Box, used
            def start():
                thread = threading.Thread(target=used)
                thread.start()
                thread.join()
                yield Box().get()
                from h.late import read
                yield read()
            """,
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    import h.use

    tracer = Tracer(sources)
    seen = []
    for item in tracer.items(h.use.start()):
        seen.append(item)
        h.tools.unused()  # between the steps
    assert seen == [3, 4]
    assert tracer.called == {("h.use", "start"), ("h.tools", "used"), ("h.tools", "Box"), ("h.late", "read")}
    assert tracer.called <= sources.closures.closure([("h.use", "start")])
    for name in [name for name in sys.modules if name == "h" or name.startswith("h.")]:
        del sys.modules[name]


# ---- the sources of the package itself


@pytest.fixture(scope="module")
def users():
    """unit -> the claims whose closure it lies in."""
    found = {}
    for module, name in every_claim():
        for unit in sources().closures.closure(sources().roots_of(module, name)):
            found.setdefault(unit, set()).add((module, name))
    return found


def every_claim():
    return [(module, entry["name"]) for module, table in sources().tables.items() for entry in table["claims"]]


def small_claims():
    """Of every room the claim that reaches least, which is likely to be quick."""
    least = {}
    for id, claim in claims().items():
        if claim.module.startswith("corollary."):
            size = len(sources().closures.closure(sources().roots_of(claim.module, claim.name)))
            least[id.partition(".")[0]] = min(least.get(id.partition(".")[0], (size, id)), (size, id))
    return [id for _, id in least.values()]


@pytest.mark.parametrize("id", small_claims())
def test_what_a_claim_calls_lies_in_its_closure(id):
    claim = claims()[id]
    found = measure(claim, 0, "quick", claim.values(), lambda item: None, trace=True)
    called = {tuple(unit.split(":")) for unit in found.calls}
    assert {(claim.module, claim.name), ("corollary.evidence._run", "items")} < called
    assert outside(claim, found.calls) == []


def edits():
    """Twenty functions, spread over the rooms."""
    rooms = tuple(f"corollary.{room}." for room in ROOMS)
    functions = [
        (module, name)
        for module, table in sources().tables.items()
        for name, record in table["names"].items()
        if module.startswith(rooms) and record["kind"] == "function"
    ]
    return functions[:: len(functions) // 20][:20]


@pytest.mark.parametrize("unit", edits(), ids=":".join)
def test_an_edit_makes_stale_exactly_its_users(unit, users):
    module, name = unit
    file = sources().files[module]
    tree = ast.parse(file.source)
    (definition,) = [s for s in tree.body if getattr(s, "name", None) == name]
    definition.body += ast.parse("edited = True").body
    edited = _table(module, file._replace(source=ast.unparse(tree)))
    changed = Closures({**sources().tables, module: edited})
    stale = {
        claim for claim in every_claim() if changed.version(sources().roots_of(*claim)) != sources().version(*claim)
    }
    assert stale == users.get(unit, set())


def test_few_claims_use_a_file_of_a_room(users):
    """What the exactness is for: an edit of the average file concerns a few claims and not a third of all."""
    claims = len(every_claim())
    assert claims > 500
    rooms = tuple(f"corollary.{room}." for room in ROOMS)
    of_file = {}
    for (module, _), those in users.items():
        of_file.setdefault(module, set()).update(those)
    counts = [len(those) for module, those in of_file.items() if module.startswith(rooms)]
    assert sum(counts) / len(counts) < claims / 30
    hopfield = {claim for module, those in of_file.items() if module.endswith(".hopfield") for claim in those}
    assert 0 < len(hopfield) < claims / 30
