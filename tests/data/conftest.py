"""Nowhere to find a data file but where a test puts it, and a mirror of its own."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from corollary.data import _files


@pytest.fixture
def cache(monkeypatch, tmp_path) -> Path:
    """An empty cache, no `COROLLARY_DATA`, and no checkout."""
    monkeypatch.delenv("COROLLARY_DATA", raising=False)
    monkeypatch.setattr(_files, "checkout_directory", lambda: None)
    monkeypatch.setattr(_files, "cache_directory", lambda: tmp_path / "cache")
    return tmp_path / "cache"


@pytest.fixture
def mirror(monkeypatch):
    """A web server on this machine: `mirror.pages[path] = (status, declared length or None, body)`."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            server.asked.append(self.path)
            status, length, body = server.pages.get(self.path, (404, 0, b""))
            self.send_response(status)
            if length is not None:
                self.send_header("Content-Length", str(length))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.pages, server.asked = {}, []
    server.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()
