"""Finding, downloading and verifying files: what is wrong is said, and nothing half-written stays."""

import gzip
import hashlib
import os
import socket
import sys
import threading
from pathlib import Path

import pytest

from corollary.data import DataError, _files
from corollary.data._files import File, load

CONTENT = bytes(range(256)) * 1000


def a_file(*mirrors: str, name: str = "thing.gz") -> File:
    return File("box", name, hashlib.sha256(CONTENT).hexdigest(), len(CONTENT), mirrors)


def page(body: bytes, status: int = 200) -> tuple[int, int, bytes]:
    return status, len(body), body


def left_in(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.rglob("*") if p.is_file())


def one_sentence(error) -> bool:
    text = str(error.value)
    return text.endswith(".") and "\n" not in text and ". " not in text


@pytest.mark.parametrize("where", ["thing.gz", "thing", "box/thing.gz", "box/thing"])
def test_own_directory(monkeypatch, tmp_path, cache, where):
    path = tmp_path / "own" / where
    path.parent.mkdir(parents=True)
    path.write_bytes(gzip.compress(CONTENT) if where.endswith("gz") else CONTENT)
    monkeypatch.setenv("COROLLARY_DATA", str(tmp_path / "own"))
    assert load(a_file()) == CONTENT
    assert not cache.exists()


def test_own_directory_must_exist(monkeypatch, tmp_path, cache):
    monkeypatch.setenv("COROLLARY_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(DataError, match="COROLLARY_DATA must name a directory, got .*nowhere") as caught:
        load(a_file())
    assert one_sentence(caught)


@pytest.mark.parametrize("content", [b"", CONTENT[:-1], CONTENT + b"x", b"x" + CONTENT[1:]])
def test_own_file_with_other_content_is_refused_and_kept(monkeypatch, tmp_path, cache, mirror, content):
    mirror.pages["/thing.gz"] = page(gzip.compress(CONTENT))
    path = tmp_path / "thing"
    path.write_bytes(content)
    monkeypatch.setenv("COROLLARY_DATA", str(tmp_path))
    with pytest.raises(DataError, match="thing is not the expected file: .* different SHA-256") as caught:
        load(a_file(f"{mirror.url}/thing.gz"))
    assert one_sentence(caught)
    assert path.read_bytes() == content
    assert mirror.asked == []


def test_missing_in_own_directory_falls_back_to_the_cache(monkeypatch, tmp_path, cache):
    (tmp_path / "own").mkdir()
    (cache / "box").mkdir(parents=True)
    (cache / "box" / "thing.gz").write_bytes(gzip.compress(CONTENT))
    monkeypatch.setenv("COROLLARY_DATA", str(tmp_path / "own"))
    assert load(a_file()) == CONTENT


def test_the_places_in_their_order(monkeypatch, tmp_path, cache, mirror):
    """`COROLLARY_DATA`, the checkout, the cache, the network: each is asked once those before it have no copy."""
    own, checkout = tmp_path / "own", tmp_path / "checkout"
    own.mkdir()
    monkeypatch.setenv("COROLLARY_DATA", str(own))
    monkeypatch.setattr(_files, "checkout_directory", lambda: checkout)
    copies = [folder / "box" / "thing.gz" for folder in (own, checkout, cache)]
    for copy in copies:
        copy.parent.mkdir(parents=True)
        copy.write_bytes(PACKED)
    mirror.pages["/thing.gz"] = page(PACKED)
    asked, verified = [], _files._verified
    monkeypatch.setattr(_files, "_verified", lambda file, path: asked.append(path) or verified(file, path))
    for copy in copies:
        assert load(a_file(f"{mirror.url}/thing.gz")) == CONTENT
        assert asked[-1] == copy
        copy.unlink()
    assert mirror.asked == []
    assert load(a_file(f"{mirror.url}/thing.gz")) == CONTENT
    assert mirror.asked == ["/thing.gz"]


def test_a_damaged_checkout_is_a_sentence(monkeypatch, tmp_path, cache, mirror):
    mirror.pages["/thing.gz"] = page(PACKED)
    (tmp_path / "thing.gz").write_bytes(gzip.compress(CONTENT[:-1]))
    monkeypatch.setattr(_files, "checkout_directory", lambda: tmp_path)
    with pytest.raises(DataError, match="thing.gz is not the expected file: .* different SHA-256") as caught:
        load(a_file(f"{mirror.url}/thing.gz"))
    assert one_sentence(caught)
    assert mirror.asked == []


@pytest.mark.parametrize(("place", "carried"), [("src", True), ("site-packages", False)])
def test_only_a_checkout_carries_data(monkeypatch, tmp_path, place, carried):
    monkeypatch.setattr(_files, "__file__", str(tmp_path / place / "corollary" / "data" / "_files.py"))
    assert _files.checkout_directory() is None
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "SHA256SUMS").touch()
    assert _files.checkout_directory() == (tmp_path.resolve() / "data" if carried else None)


def test_download_once(cache, mirror):
    mirror.pages["/thing.gz"] = page(gzip.compress(CONTENT))
    file = a_file(f"{mirror.url}/thing.gz")
    assert load(file) == CONTENT
    assert left_in(cache) == ["thing.gz"]
    assert load(file) == CONTENT
    assert mirror.asked == ["/thing.gz"]


def test_download_without_a_declared_length(cache, mirror):
    mirror.pages["/thing.gz"] = (200, None, gzip.compress(CONTENT))
    assert load(a_file(f"{mirror.url}/thing.gz")) == CONTENT


def test_damaged_cache_is_repaired(cache, mirror):
    mirror.pages["/thing.gz"] = page(gzip.compress(CONTENT))
    (cache / "box").mkdir(parents=True)
    (cache / "box" / "thing.gz").write_bytes(gzip.compress(CONTENT)[:100])
    assert load(a_file(f"{mirror.url}/thing.gz")) == CONTENT
    assert gzip.decompress((cache / "box" / "thing.gz").read_bytes()) == CONTENT


PACKED = gzip.compress(CONTENT)
BAD_ANSWERS = {
    "wrong bytes": (page(gzip.compress(b"other")), "what it sent is not the expected file"),
    "a web page": (page(b"<html>please log in</html>"), "what it sent is not the expected file"),
    "an error": (page(b"gone", status=503), "HTTP status 503"),
    "nothing there": (page(b"", status=404), "HTTP status 404"),
    "cut off": ((200, len(PACKED), PACKED[:500]), f"ended after 500 of {len(PACKED)} bytes"),
    "a short gzip": (page(PACKED[:500]), "what it sent is truncated"),
    "a damaged gzip": (page(PACKED[:20] + b"\xff" * 40 + PACKED[60:]), "what it sent is damaged"),
    "no end": (page(b"x" * (2 * len(CONTENT) + 2**18)), "it sent more than the file holds"),
    "an unpacking bomb": (page(gzip.compress(b"\0" * 10**8)), "what it sent is not the expected file"),
}


@pytest.mark.parametrize("answer", BAD_ANSWERS)
def test_bad_mirror_then_a_good_one(cache, mirror, answer):
    mirror.pages["/bad"] = BAD_ANSWERS[answer][0]
    mirror.pages["/good"] = page(PACKED)
    assert load(a_file(f"{mirror.url}/bad", f"{mirror.url}/good")) == CONTENT
    assert mirror.asked == ["/bad", "/good"]
    assert left_in(cache) == ["thing.gz"]


@pytest.mark.parametrize("answer", BAD_ANSWERS)
def test_only_bad_mirrors(cache, mirror, answer):
    mirror.pages["/bad"], why = BAD_ANSWERS[answer]
    with pytest.raises(DataError, match=f"thing.gz is neither .* could not be downloaded .*{why}") as caught:
        load(a_file(f"{mirror.url}/bad", f"{mirror.url}/bad"))
    assert one_sentence(caught)
    assert ".part" not in str(caught.value)
    assert str(caught.value).count(why) == 2  # each mirror is named with its fault
    assert left_in(cache) == []


def test_no_network(cache):
    with socket.socket() as taken:  # bound and not listening: the connection is refused
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/thing.gz"
        with pytest.raises(DataError, match="could not be downloaded .*127.0.0.1.*[Rr]efused") as caught:
            load(a_file(url))
    assert one_sentence(caught)
    assert "COROLLARY_DATA" in str(caught.value)
    assert left_in(cache) == []


def test_unknown_host(cache):
    with pytest.raises(DataError, match="could not be downloaded \\(no-such-host.invalid: ") as caught:
        load(a_file("https://no-such-host.invalid/thing.gz"))
    assert one_sentence(caught)


def test_silent_mirror_times_out(monkeypatch, cache):
    monkeypatch.setattr(_files, "TIMEOUT", 0.2)
    silent = socket.create_server(("127.0.0.1", 0))  # accepts, never answers
    with silent, pytest.raises(DataError, match="timed out") as caught:
        load(a_file(f"http://127.0.0.1:{silent.getsockname()[1]}/thing.gz"))
    assert one_sentence(caught)
    assert left_in(cache) == []


def test_not_http(cache):
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer():
            connection, _ = server.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(b"SSH-2.0-hello\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(DataError, match="could not be downloaded") as caught:
            load(a_file(f"http://127.0.0.1:{server.getsockname()[1]}/thing.gz"))
        thread.join()
    assert one_sentence(caught)
    assert left_in(cache) == []


def test_no_mirror_says_where_to_put_the_file(cache):
    with pytest.raises(DataError, match="thing.gz is neither .* no mirror of it is known; put it") as caught:
        load(a_file())
    assert str(cache / "box") in str(caught.value)
    assert one_sentence(caught)


def test_cache_that_cannot_be_written(cache, mirror):
    mirror.pages["/thing.gz"] = page(PACKED)
    cache.write_text("a file where the directory should be")
    with pytest.raises(DataError, match="thing.gz cannot be stored in the cache .*COROLLARY_DATA") as caught:
        load(a_file(f"{mirror.url}/thing.gz"))
    assert one_sentence(caught)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs the device that is always full")
def test_full_disk(monkeypatch, cache, mirror):
    mirror.pages["/thing.gz"] = page(PACKED)
    full = Path("/dev/full")
    monkeypatch.setattr(_files, "open", lambda *_: full.open("wb"), raising=False)
    with pytest.raises(DataError, match="cannot be stored in the cache .*No space left") as caught:
        load(a_file(f"{mirror.url}/thing.gz"))
    assert one_sentence(caught)
    assert left_in(cache) == []


def test_interrupt_leaves_nothing(monkeypatch, cache, mirror):
    mirror.pages["/thing.gz"] = page(PACKED)

    def interrupted(file, path):
        assert path.stat().st_size == len(PACKED)
        raise KeyboardInterrupt

    monkeypatch.setattr(_files, "_verified", interrupted)
    with pytest.raises(KeyboardInterrupt):
        load(a_file(f"{mirror.url}/thing.gz"))
    assert left_in(cache) == []


def test_many_at_once(cache, mirror):
    mirror.pages["/thing.gz"] = page(PACKED)
    file, got = a_file(f"{mirror.url}/thing.gz"), []
    threads = [threading.Thread(target=lambda: got.append(load(file))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got == [CONTENT] * 8
    assert left_in(cache) == ["thing.gz"]


def test_progress_only_on_a_terminal(monkeypatch, cache, mirror, capsys):
    mirror.pages["/thing.gz"] = page(PACKED)
    load(a_file(f"{mirror.url}/thing.gz"))
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    (cache / "box" / "thing.gz").unlink()
    assert load(a_file(f"{mirror.url}/thing.gz")) == CONTENT
    assert "thing.gz" in capsys.readouterr().err


def test_cache_directory_is_the_users():
    assert _files.cache_directory().name == "corollary"
    assert _files.cache_directory().is_absolute()
