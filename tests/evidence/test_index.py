"""Claims are read from the sources, and are what importing them would give."""

import importlib
import pkgutil
import sys

import pytest

import corollary.claims
from corollary.evidence import UserError, claims, select
from corollary.evidence import _claim as registry
from corollary.evidence._index import FILES, _package, load

OWN = '''
from beside import bound
from corollary.evidence import Size, at_most, claim

@claim(rows=("M02.01",))
def own(key, *, n: Size = 3):
    """A claim of one's own.

    One is at most the bound."""
    yield at_most("one", 1.0, bound=bound())
'''


def test_the_index_says_what_importing_says():
    for module in pkgutil.walk_packages(corollary.claims.__path__, "corollary.claims."):
        importlib.import_module(module.name)
    imported = {id: c for id, c in registry._REGISTRY.items() if c.module.startswith("corollary.")}
    assert dict(_package()) == imported
    assert len(imported) > 500
    some = next(iter(_package().values()))
    assert some.experiment is None
    assert some.function is imported[some.id].function


def test_words_find_ids_and_titles():
    found = {c.id for c in select(["nesterov"], words=True)}
    known = claims()
    assert found == {id for id, c in known.items() if "nesterov" in f"{id} {c.title}".lower()}
    assert any("nesterov" not in id for id in found)
    one = next(iter(known))
    assert [c.id for c in select([one], words=True)] == [one]
    with pytest.raises(UserError, match="No claim matches"):
        select(["nesterov"])


@pytest.fixture
def own(tmp_path):
    (tmp_path / "my_own_claims.py").write_text(OWN)
    (tmp_path / "beside.py").write_text("def bound(): return 2.0\n")
    yield tmp_path / "my_own_claims.py"
    registry._REGISTRY.pop("my_own_claims.own", None)
    for name in ("my_own_claims", "beside"):
        sys.modules.pop(name, None)
        FILES.pop(name, None)
    if str(tmp_path) in sys.path:
        sys.path.remove(str(tmp_path))


def test_a_file_with_claims_of_ones_own(own, monkeypatch):
    monkeypatch.setenv("COROLLARY_CLAIMS", str(own))
    assert claims()["my_own_claims.own"].title == "A claim of one's own."
    assert claims()  # again, and nothing is there twice


def test_files_that_cannot_be_taken(own, tmp_path):
    with pytest.raises(UserError, match="There is no file"):
        load(str(tmp_path / "nothing.py"))
    (tmp_path / "json.py").write_text("")
    with pytest.raises(UserError, match="there is a module json already"):
        load(str(tmp_path / "json.py"))
    (tmp_path / "broken_claims.py").write_text("1 / 0")
    with pytest.raises(ZeroDivisionError):
        load(str(tmp_path / "broken_claims.py"))
    assert "broken_claims" not in sys.modules
