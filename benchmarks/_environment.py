"""An environment of its own for each peer, so that its pins and ours do not meet."""

import subprocess
import sys
import venv
from pathlib import Path

HOME = Path(__file__).parent / ".peers"


def environment(name: str, *steps: list[str]) -> Path:
    """The Python of the environment `benchmarks/.peers/name`, made by the given `pip install` steps when missing."""
    home = HOME / name
    python = home / "bin" / "python"
    done = home / "complete"
    if not done.exists():
        print(f"installing {name} into {home} (once)", file=sys.stderr)
        venv.create(home, with_pip=True, clear=True)
        for step in steps:
            subprocess.run([python, "-m", "pip", "install", "--quiet", *step], check=True)
        done.touch()
    return python
