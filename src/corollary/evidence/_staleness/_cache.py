"""Plain data that is kept between runs in the user's cache directory. Without it everything takes longer, no more."""

import json
import os
import tempfile
from pathlib import Path


def directory() -> Path:
    """Where things are kept that can be made again: `COROLLARY_CACHE`, or the user's cache directory."""
    if named := os.environ.get("COROLLARY_CACHE"):
        return Path(named).expanduser()
    from platformdirs import user_cache_dir

    return Path(user_cache_dir("corollary", appauthor=False))


def load(name: str) -> dict:
    """What was saved under this name; empty when there is nothing, or nothing that can be read."""
    try:
        found = json.loads((directory() / name).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def save(name: str, content: dict) -> None:
    """Save under this name, whole or not at all."""
    draft = None
    try:
        directory().mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, draft = tempfile.mkstemp(dir=directory(), prefix=name, suffix=".new")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(content, file, separators=(",", ":"))
        os.replace(draft, directory() / name)
    except OSError:  # a place that cannot be written, or a full disk
        if draft is not None:
            Path(draft).unlink(missing_ok=True)
