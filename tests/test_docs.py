"""What the documents tell a newcomer to type, typed."""

import ast
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


SECTIONS = ROOT / "src" / "corollary" / "audit" / "sections"


def _words(path: Path) -> set[str]:
    """The texts in a file of a section, and in the private files beside it that it imports."""
    found, seen, left = set(), set(), [path]
    while left:
        here = left.pop()
        seen.add(here)
        for node in ast.walk(ast.parse(here.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.add(node.value)
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("corollary.audit.sections"):
                names = [node.module.rpartition(".")[2], *(alias.name for alias in node.names)]
                files = [SECTIONS / f"{name}.py" for name in names if name.startswith("_")]
                left += [file for file in files if file.exists() and file not in seen]
    return found


def test_every_finding_of_the_checklist_is_one():
    from corollary.audit._alarms import DELTA

    found = {"watch": {*DELTA, "loss", "units"}}
    for path in SECTIONS.glob("[a-z]*.py"):
        title = re.search(r'^TITLE = "(.*)"$', path.read_text(encoding="utf-8"), re.MULTILINE)
        found[title[1]] = _words(path)
    rows = re.findall(r"^\|(.*?)\|(.*?)\|(.*)\|$", (ROOT / "docs" / "checklist.md").read_text("utf-8"), re.MULTILINE)
    rows = [[cell.strip() for cell in row] for row in rows if not row[0].strip().startswith(("---", "item"))]
    assert len(rows) > 60
    named = 0
    for item, section, said in rows:
        assert section in {*found, "compare", "–"}, item
        names = re.findall("`([^`]+)`", said) if section in found else []
        assert set(names) <= found.get(section, set()), item
        named += len(names)
        assert said, item
    assert named > 50
    assert "steps to be fit" not in found["Will it train?"]  # the control: a name that is none


def test_no_path_of_this_machine_in_the_files():
    here = [f"{place}/" for place in (ROOT, Path.home()) if len(place.parts) > 1]
    suffixes = {".py", ".md", ".toml", ".tsv", ".yml", ""}
    for path in [*ROOT.glob("*"), *ROOT.glob("src/**/*"), *ROOT.glob("docs/**/*"), *ROOT.glob("tests/**/*")]:
        if path.is_file() and path.suffix in suffixes:
            text = path.read_text(encoding="utf-8", errors="ignore")
            assert not any(place in text for place in here), path


def test_every_kind_of_subject_in_the_documents_is_taken(tmp_path, monkeypatch):
    import equinox as eqx
    import jax
    import jax.numpy as jnp
    import numpy as np
    import optax

    from corollary import Network, Subject

    rng = np.random.default_rng(0)
    x, images = rng.normal(size=(8, 4)).astype(np.float32), rng.normal(size=(8, 3, 5, 6)).astype(np.float32)
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", x)
    np.save("y.npy", np.arange(8) % 3)
    words, table = rng.integers(0, 7, (8, 6)), jnp.asarray(rng.normal(size=(7, 7)), jnp.float32)
    names = {
        "Subject": Subject,
        "Network": Network,
        "jnp": jnp,
        "np": np,
        "optax": optax,
        "x": x,
        "y": np.arange(8) % 3,
        "x_test": x[:4],
        "y_test": np.arange(4) % 3,
        "untrained": eqx.nn.Linear(4, 3, key=jax.random.key(2)),
        "weights": rng.uniform(size=8),
        "class_weights": np.array([1.0, 2.0, 0.5]),
        "tokens": words[:, :-1],
        "mask": words[:, :-1] > 1,
        "next_tokens": np.where(words[:, :-1] > 1, words[:, 1:], -100),
        "language_model": Network(lambda w, x: w[x["tokens"]] * x["mask"][:, None], table),
        "images": images,
        "pixel_classes": rng.integers(0, 4, (8, 5, 6)),
        "segmenter": eqx.nn.Conv2d(3, 4, 1, key=jax.random.key(0)),
        "tagger": eqx.nn.Linear(4, 3, key=jax.random.key(1)),
        "tags": rng.integers(0, 2, (8, 3)),
        "goals": {"goal": rng.normal(size=(8, 3)), "scale": np.ones(8)},
        "apply": lambda params, statistics, x: params * (x - statistics),
        "params": jnp.ones(4),
        "statistics": jnp.zeros(4),
        "by_its_batch": lambda params, statistics, x: params * (x - x.mean(0)),
    }
    for line in "".join(blocks("docs/subjects.md", "python")).splitlines():
        made = eval(compile(line, "docs/subjects.md", "eval"), names)
        assert isinstance(made, Network) or np.isfinite(made.mean_loss())
