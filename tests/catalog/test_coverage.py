"""Who covers what, and that nobody covers a row that is not there."""

import importlib
import pkgutil
from types import SimpleNamespace

import pytest

from corollary import ROOMS, catalog, evidence
from corollary.catalog import IMPLEMENTED, Covered, Summary, _coverage, coverage, implements, rows, summary
from corollary.catalog._coverage import implemented
from corollary.evidence._code import sources
from corollary.evidence._staleness._sources import Sources

HOUSE = (*ROOMS, "network")  # where objects that cover rows live


@pytest.fixture
def nobody(monkeypatch):
    """A world without claims and objects, to put one's own into."""
    found = SimpleNamespace(claims={}, objects={})
    monkeypatch.setattr(evidence, "claims", lambda: found.claims)
    monkeypatch.setattr(_coverage, "implemented", lambda sources, rooms: found.objects)
    registered = dict(IMPLEMENTED)  # put back below, so that the tests of the real rooms see them
    IMPLEMENTED.clear()
    yield found
    IMPLEMENTED.clear()
    IMPLEMENTED.update(registered)


def test_implements_returns_the_object_unchanged(nobody):
    def f():
        """A docstring."""

    class C:
        pass

    before = dict(vars(f))
    assert implements("M02.05", "M02.06")(f) is f
    assert vars(f) == before
    assert f.__doc__ == "A docstring."
    assert implements("M02.06")(C) is C
    name = f"{__name__}.test_implements_returns_the_object_unchanged.<locals>"
    assert {"M02.05": [f"{name}.f"], "M02.06": [f"{name}.f", f"{name}.C"]} == IMPLEMENTED


def test_nothing_covered(nobody):
    found = coverage()
    assert [one.row for one in found] == list(rows().values())
    assert all(one.claims == one.objects == () for one in found)
    assert {one.row.id: one.waived for one in found if one.waived} == dict(catalog.waived())
    assert sum(one.missing for one in found) == len(rows()) - len(catalog.waived())


def test_claims_and_objects(nobody):
    nobody.claims = {
        "linear.a": SimpleNamespace(rows=("M02.05", "B05.07")),
        "linear.b": SimpleNamespace(rows=("M02.05", "M02.05")),
    }
    nobody.objects = {"M02.05": ["corollary.catalog.rows", "corollary.catalog.rows"]}
    IMPLEMENTED["M02.06"] = ["mine.table"]
    IMPLEMENTED["M02.07"] = ["corollary.catalog.rows"]  # ours are read from the sources
    found = {one.row.id: one for one in coverage()}
    assert found["M02.05"].claims == ("linear.a", "linear.b")
    assert found["M02.05"].objects == ("corollary.catalog.rows",)
    assert found["M02.05"].by == ("linear.a", "linear.b", "corollary.catalog.rows")
    assert found["M02.06"].objects == ("mine.table",)
    assert found["B05.07"].claims == ("linear.a",)
    assert not found["B05.07"].missing
    assert found["M02.07"].missing
    by_chapter = {(s.text, s.chapter): s for s in summary(found.values())}
    assert by_chapter["M", "02"] == Summary("M", "02", 18, 2, 1, 2, 0)
    assert by_chapter["B", "05"] == Summary("B", "05", 34, 1, 1, 0, 0)


def test_summary_adds_up(nobody):
    waived_row = next(iter(catalog.waived()))
    found = coverage()
    counts = summary(found)
    assert sum(s.rows for s in counts) == len(rows())
    assert sum(s.waived for s in counts) == len(catalog.waived())
    assert sum(s.covered for s in counts) == 0
    assert len(counts) == len({id.partition(".")[0] for id in rows()})
    # a waived row that is covered all the same is covered, not waived
    one = Covered(rows()[waived_row], ("some.claim",), (), "Reason.")
    assert summary([one]) == [Summary(one.row.text, one.row.chapter, 1, 1, 1, 0, 0)]
    assert summary([]) == []


def test_unknown_rows_are_reported(nobody):
    assert catalog.unknown_rows() == {}
    nobody.claims = {"linear.a": SimpleNamespace(rows=("M02.99", "M02.05"))}
    nobody.objects = {"M02.99": ["corollary.catalog.rows"]}
    IMPLEMENTED["X01.01"] = ["mine.table"]
    assert catalog.unknown_rows() == {"M02.99": ("linear.a", "corollary.catalog.rows"), "X01.01": ("mine.table",)}
    assert all(one.row.id in rows() for one in coverage())


def test_no_claim_or_object_names_an_unknown_row():
    assert catalog.unknown_rows() == {}


def test_every_module_of_a_room_is_searched(tmp_path):
    """Objects count although nothing imports their module, however deep it lies, and methods do too."""
    files = {
        "__init__.py": "",
        "menagerie/__init__.py": "from corollary.menagerie._cats import cat, Lion\n",
        "menagerie/_cats.py": "@implements('T19.01')\ndef cat(): pass\n"
        "class Lion:\n    @implements('T19.01', 'T19.02')\n    def roar(self): pass\n",
        "menagerie/_birds/__init__.py": "",
        "menagerie/_birds/_owl.py": "@implements('T19.01')\ndef owl(): pass\n",
        "menagerie_of_others.py": "@implements('T19.01')\ndef dog(): pass\n",
    }
    for name, text in files.items():
        path = tmp_path / "corollary" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert implemented(Sources({"corollary": tmp_path / "corollary"}), ["menagerie"]) == {
        "T19.01": [
            "corollary.menagerie._birds._owl.owl",  # not exported: shown as it is
            "corollary.menagerie.cat",  # by the name that users import
            "corollary.menagerie.Lion.roar",
        ],
        "T19.02": ["corollary.menagerie.Lion.roar"],
    }


def test_what_is_read_is_what_is_registered():
    """The sources say the same as importing every module of every room."""
    for room in HOUSE:
        package = importlib.import_module(f"corollary.{room}")
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    registered = {(row, name) for row, names in IMPLEMENTED.items() for name in names if name.startswith("corollary.")}
    read = {
        (row, f"{module}.{name}")
        for module, table in sources().tables.items()
        for name, those in table["implements"]
        for row in those
    }
    assert read == registered


def test_the_rooms_register():
    names = {name for one in coverage() for name in one.objects}
    assert names
    assert {name.split(".")[1] for name in names} <= set(HOUSE)


def test_objects_are_public():
    """`implements` is for what users can import: a private path means that the room forgot to export it."""
    names = {name for one in coverage() for name in one.objects}
    assert {name for name in names if "._" in name} == set()
