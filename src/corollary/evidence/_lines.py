"""Messages between a run and its workers: lines of JSON, read without ever waiting for the rest of one.

A worker runs code that is not ours, and may send half a message and no more, or one without end.
"""

import json
import socket
from collections.abc import Iterator

LIMIT = 64 * 2**20  # bytes of one message; evidence with all its figures takes a hundredth of it
CHUNK = 2**16


class TooLong(Exception):
    """A message that has grown past the limit."""


def send(end: socket.socket, *message) -> None:
    """One message: a list of what JSON can hold."""
    end.sendall(json.dumps(message, allow_nan=False, separators=(",", ":")).encode() + b"\n")


class Lines:
    """The messages that have arrived at one end, as far as they are whole."""

    def __init__(self, end: socket.socket):
        end.setblocking(False)
        self.end, self.buffer, self.ended = end, bytearray(), False

    def take(self, at_most: int | None = None) -> Iterator[list | None]:
        """What has arrived by now; None for a line that is no message. Stops where there would be a wait."""
        taken = 0
        while at_most is None or taken < at_most:
            line = self._line()
            if line is None:
                return
            taken += 1
            yield _parsed(line)

    def _line(self) -> bytes | None:
        start = 0
        while (cut := self.buffer.find(b"\n", start)) < 0:
            start = len(self.buffer)
            if start > LIMIT:
                raise TooLong
            try:
                piece = self.end.recv(CHUNK)
            except BlockingIOError:
                return None
            except OSError:  # the other end is gone
                piece = b""
            if not piece:
                self.ended = True
                return None
            self.buffer += piece
        line = bytes(self.buffer[:cut])
        del self.buffer[: cut + 1]
        return line


def _parsed(line: bytes) -> list | None:
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return message if isinstance(message, list) else None
