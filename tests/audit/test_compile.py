"""Passes of XLA are switched off where they would take minutes."""

import os

import pytest

from corollary.audit import _compile
from corollary.audit._compile import LONGEST, longest_row, settle
from corollary.onnx._parts import LARGE

onnx = pytest.importorskip("onnx")
from onnx import helper  # noqa: E402


def saved(path, length):
    """A product, and a row of operators behind it."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h0"])]
    nodes += [helper.make_node("Relu", [f"h{i}"], [f"h{i + 1}"]) for i in range(length)]
    onnx.save(helper.make_model(helper.make_graph(nodes, "g", [], [])), path)
    return nodes


def test_the_longest_row(tmp_path):
    nodes = saved(tmp_path / "a.onnx", 7)
    assert longest_row(nodes) == 7
    assert longest_row([*nodes, helper.make_node("MatMul", ["h7", "w"], ["p"])]) == 7
    joined = helper.make_node("Add", ["h0", "h7"], ["s"])
    assert longest_row([*nodes, joined]) == 8


def test_calls_are_written_out_for_other_devices(monkeypatch):
    nodes = [helper.make_node("MatMul", [f"h{i}", "w"], [f"h{i + 1}"]) for i in range(LARGE)]
    for platforms, plugins, name in (
        *(("cpu", ["cuda"], "call-inliner,simplify-while-loops"), ("", ["cuda"], None)),
        ("", [], "call-inliner,simplify-while-loops"),
    ):
        monkeypatch.setenv("JAX_PLATFORMS", platforms)
        monkeypatch.setattr(_compile, "entry_points", lambda group, found=plugins: found)
        assert _compile.left_out(nodes) == name


def test_flags_of_a_long_row_and_of_a_large_graph(tmp_path, monkeypatch):
    large = "--a --xla_disable_hlo_passes=call-inliner,simplify-while-loops"
    for length, flags in (
        (LONGEST, "--a"),
        (LONGEST + 1, "--a --xla_disable_hlo_passes=fusion"),
        (LARGE - 2, "--a --xla_disable_hlo_passes=fusion"),
        (LARGE - 1, large),  # with the product before the row
    ):
        monkeypatch.setenv("XLA_FLAGS", "--a")
        saved(tmp_path / "n.onnx", length)
        settle(str(tmp_path / "n.onnx"))
        assert os.environ["XLA_FLAGS"] == flags
    monkeypatch.setenv("XLA_FLAGS", "--xla_disable_hlo_passes=cse")
    settle(str(tmp_path / "n.onnx"))
    assert os.environ["XLA_FLAGS"] == "--xla_disable_hlo_passes=cse"
    (tmp_path / "n.onnx").write_bytes(b"no graph")
    for name in ("n.onnx", "none.onnx", "f.py:f"):
        settle(str(tmp_path / name))
