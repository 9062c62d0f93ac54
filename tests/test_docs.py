"""What the documents tell a newcomer to type, typed."""

import re
import sys
import types
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def blocks(name: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / name).read_text(encoding="utf-8"), re.DOTALL)


def test_the_python_of_the_readme_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for code in blocks("README.md", "python"):
        exec(compile(code, "README.md", "exec"), {})
    said = capsys.readouterr().out
    assert "False" in said
    assert "holds" in said
    assert list((tmp_path / "figures").glob("*.png"))


@pytest.mark.parametrize("seed", range(3))
def test_the_claim_of_the_contributing_guide_holds(seed):
    from corollary.evidence import run
    from corollary.evidence._claim import _REGISTRY

    (code,) = blocks("CONTRIBUTING.md", "python")
    module = types.ModuleType("corollary.claims.linear.example")
    sys.modules[module.__name__] = module
    try:
        exec(compile(code, "CONTRIBUTING.md", "exec"), module.__dict__)
        found = run(module.second_order_remainder, seed)
        assert found.verdict == "holds", found
        assert found.controls
    finally:
        _REGISTRY.pop("linear.example.second_order_remainder", None)
        del sys.modules[module.__name__]


def test_every_file_the_readme_points_at_is_there():
    for target in re.findall(r"\]\(([^)h][^)]*)\)", (ROOT / "README.md").read_text(encoding="utf-8")):
        assert (ROOT / target).exists(), target


def test_no_path_of_this_machine_in_the_files():
    here = [f"{place}/" for place in (ROOT, Path.home()) if len(place.parts) > 1]
    suffixes = {".py", ".md", ".toml", ".tsv", ".yml", ""}
    for path in [*ROOT.glob("*"), *ROOT.glob("src/**/*"), *ROOT.glob("docs/**/*"), *ROOT.glob("tests/**/*")]:
        if path.is_file() and path.suffix in suffixes:
            text = path.read_text(encoding="utf-8", errors="ignore")
            assert not any(place in text for place in here), path
