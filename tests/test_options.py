"""Places to write to are tried out before the work, and what stands there is not touched until then."""

import errno
from pathlib import Path
from types import SimpleNamespace

import pytest

from corollary import _options
from corollary._options import Output, drawn, make_directory
from corollary.evidence._errors import Stopped, UserError


def test_a_file_is_whole_or_not_there(tmp_path):
    path = tmp_path / "report.html"
    with Output(path) as file:
        file.write("first")
    assert path.read_text() == "first"
    for failing in (path, tmp_path / "new.html"):
        with pytest.raises(ZeroDivisionError), Output(failing):
            raise ZeroDivisionError
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]
    assert path.read_text() == "first"


@pytest.mark.parametrize("name", [".", "none/report.html", "a" * 300, "file/report.html"])
def test_what_cannot_be_written_is_said_at_once(tmp_path, name):
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="^--out .* cannot be written: "):
        Output(tmp_path / name).__enter__()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is always full")
def test_a_device_is_asked_by_writing_to_it():
    with pytest.raises(UserError, match="No space left on device"):
        Output(Path("/dev/full")).__enter__()


def test_figures_on_a_full_disk(tmp_path, monkeypatch):
    def full(evidence, directory):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("corollary.evidence.save", full)
    with pytest.raises(Stopped, match=r"The figure of a\.b cannot be written to .*: No space left on device\. "):
        drawn(SimpleNamespace(claim="a.b"), tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="cannot be made"):
        make_directory(tmp_path / "file")
    monkeypatch.setattr(_options.os, "access", lambda path, mode: False)
    with pytest.raises(UserError, match="write-protected"):
        make_directory(tmp_path)
