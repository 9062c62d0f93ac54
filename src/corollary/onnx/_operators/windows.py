"""Where the windows of convolutions and pooling lie, in ONNX's words for it."""

from __future__ import annotations

from typing import NamedTuple


class Windows(NamedTuple):
    """The shape of a window, and what is said per axis of the steps, holes and padding."""

    window: tuple[int, ...]
    strides: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    dilation: tuple[int, ...]


def windows(node, space, window) -> Windows:
    """The windows that a node's attributes describe over axes of the lengths `space`."""
    n = len(space)
    strides = tuple(node["strides"] or (1,) * n)
    dilation = tuple(node["dilations"] or (1,) * n)
    spans = [d * (k - 1) + 1 for d, k in zip(dilation, window, strict=True)]
    if (auto := node["auto_pad"] or "NOTSET") == "NOTSET":
        padding = pairs(node["pads"], n)
    elif auto == "VALID":
        padding = ((0, 0),) * n
    else:  # as many windows as steps fit into the axis
        wanted = [
            (-(-length // s) - 1) * s + span - length for length, s, span in zip(space, strides, spans, strict=True)
        ]
        padding = tuple(halves(max(total, 0), auto) for total in wanted)
    return Windows(tuple(window), strides, padding, dilation)


def rounded_up(found: Windows, space) -> Windows:
    """The same windows, and one more per axis where some of it is left over; none begins in the padding at its end."""
    padding = []
    for length, k, s, (low, high), d in zip(space, *found, strict=True):
        span = d * (k - 1) + 1
        count = -(-(length + low + high - span) // s) + 1
        count -= (count - 1) * s >= length + low
        padding.append((low, (count - 1) * s + span - length - low))
    return found._replace(padding=tuple(padding))


def pairs(pads, n) -> tuple[tuple[int, int], ...]:
    """ONNX's list, all beginnings and then all ends, as one pair per axis."""
    pads = pads or (0,) * (2 * n)
    return tuple(zip(pads[:n], pads[n:], strict=True))


def halves(total, auto) -> tuple[int, int]:
    """Padding split over both ends; an odd one out goes to the end for SAME_UPPER, to the beginning otherwise."""
    small, large = total // 2, total - total // 2
    return (small, large) if auto == "SAME_UPPER" else (large, small)
