"""How XLA compiles a network that was read from a file."""

import os
from importlib.metadata import entry_points

from corollary.onnx._parts import LARGE

#: operators that XLA does not fuse with others
PRODUCTS = ("MatMul", "Gemm", "Conv", "ConvTranspose", "Einsum", "LSTM", "GRU", "RNN")
#: operators in a row that XLA may fuse. Each number that is needed of a row is computed from its beginning, in code of
#: its own: of 200 in a row the gradient took 25 s to compile, and 0.5 s without fusion.
LONGEST = 128
FLAG = "--xla_disable_hlo_passes"


def longest_row(nodes) -> int:
    """How many operators follow on each other without a product between them, in nodes in the order of computation."""
    behind: dict[str, int] = {}
    for node in nodes:
        row = 0 if node.op_type in PRODUCTS else 1 + max((behind.get(name, 0) for name in node.input), default=0)
        behind |= dict.fromkeys(node.output, row)
    return max(behind.values(), default=0)


def left_out(nodes) -> str | None:
    """The passes of XLA that are switched off for a graph.

    The calls of a large one stay calls, so that it is compiled part by part (`onnx/_parts.py`): a part is no long row.
    What looks for loops of known length would copy all parts that a loop calls, for each loop again and again.
    """
    if len(nodes) >= LARGE and _on_cpu():
        return "call-inliner,simplify-while-loops"
    return "fusion" if longest_row(nodes) > LONGEST else None


def _on_cpu() -> bool:
    """Whether JAX will run on a CPU, told before it starts: other devices are plugins, and want calls written out."""
    return os.environ.get("JAX_PLATFORMS") == "cpu" or not entry_points(group="jax_plugins")


def settle(path: str | None) -> None:
    """Switch off what would take long; before anything is compiled, since XLA reads its flags once."""
    if path is None or not path.endswith(".onnx") or FLAG in os.environ.get("XLA_FLAGS", ""):
        return
    try:
        import onnx

        nodes = onnx.load(path, load_external_data=False).graph.node
    except Exception:  # that it cannot be read is said when it is
        return
    if (name := left_out(nodes)) is not None:
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {FLAG}={name}".strip()
