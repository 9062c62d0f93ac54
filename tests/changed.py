"""Print the tests of the files that differ from HEAD, for `make test-quick`: those of a/r.py are tests/a/test_r*.py."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def changed() -> list[str]:
    """Files of the checkout that were edited, added or moved since the last commit."""
    words = ["git", "status", "--porcelain", "--untracked-files=all", "-z"]
    found = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [entry[3:] for entry in found.split("\0") if entry[2:3] == " "]


def tests_of(file: str) -> list[Path]:
    """The tests that are about a file: itself, where it is a test, and otherwise those named after it."""
    path = Path(file)
    if path.parts[:1] == ("tests",):
        return [ROOT / path] if path.name.startswith("test_") and (ROOT / path).is_file() else []
    if path.parts[:2] != ("src", "corollary") or path.suffix != ".py":
        return []
    where = ROOT / "tests" / Path(*path.parts[2:-1])
    named = sorted(where.glob(f"test_{path.stem.lstrip('_')}*.py"))
    private = path.stem.startswith("_")  # without tests of its own it is tested through its neighbours
    return named or (sorted(where.glob("test_*.py")) if private else [])


if __name__ == "__main__":
    for test in dict.fromkeys(test for file in changed() for test in tests_of(file)):
        print(test.relative_to(ROOT))
