"""Networks that others designed, with random weights: of torchvision and timm, and small ones of transformers."""

from __future__ import annotations

import functools
import importlib.util
import os
import sys
from collections.abc import Callable

import numpy as np
import pytest

os.environ.setdefault("HF_HUB_OFFLINE", "1")
DECLARED: list = []


@functools.cache
def torchvision():
    """The package, also without its compiled part, which may want CUDA: operators are declared then, never called."""
    try:
        return importlib.import_module("torchvision")
    except RuntimeError:
        import torch

        library = torch.library.Library("torchvision", "FRAGMENT")
        for name in ("nms", "qnms"):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        DECLARED.append(library)  # declarations last as long as this object
        for name in [name for name in sys.modules if name.split(".")[0] == "torchvision"]:
            del sys.modules[name]
        return importlib.import_module("torchvision")


def image(size: int, channels: int = 3) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(channels, size, size)).astype(np.float32)


def tokens(n: int, most: int = 50) -> np.ndarray:
    return np.random.default_rng(0).integers(3, most, size=n)


# name of the architecture, size of the image, arguments
TORCHVISION = {
    "resnet18": (32, {}),
    "densenet121": (32, {}),
    "squeezenet1_1": (32, {}),
    "googlenet": (32, {"aux_logits": False, "init_weights": False}),
    "mobilenet_v2": (32, {}),
    "mobilenet_v3_small": (32, {}),
    "mnasnet0_5": (32, {}),
    "shufflenet_v2_x0_5": (32, {}),
    "efficientnet_b0": (32, {}),
    "regnet_y_400mf": (32, {}),
    "convnext_tiny": (32, {}),
    "swin_t": (32, {}),
}
TIMM = {
    "resnet18d": (32, {}),
    "resnetv2_50": (32, {}),
    "seresnet18": (32, {}),
    "res2net50_26w_4s": (32, {}),
    "vit_tiny_patch16_224": (32, {"img_size": 32}),
    "deit_tiny_distilled_patch16_224": (32, {"img_size": 32}),
    "mixer_s32_224": (64, {"img_size": 64}),
    "resmlp_12_224": (32, {"img_size": 32}),
    "gmlp_ti16_224": (32, {"img_size": 32}),
    "cait_xxs24_224": (32, {"img_size": 32, "depth": 4}),
    "xcit_nano_12_p16_224": (32, {"img_size": 32}),
    "pvt_v2_b0": (32, {}),
    "poolformer_s12": (32, {}),
    "mobilevit_xxs": (32, {}),
    "ghostnet_050": (32, {}),
    "hrnet_w18_small": (32, {}),
    "repvgg_a0": (32, {}),
    "nfnet_l0": (32, {}),
    "edgenext_xx_small": (64, {}),
    "coat_lite_tiny": (32, {"img_size": 32}),
}


def _vision(name) -> Callable:
    def make():
        size, arguments = TORCHVISION[name]
        return torchvision().models.get_model(name, weights=None, num_classes=5, **arguments), image(size)

    return make


def _timm(name) -> Callable:
    def make():
        torchvision()
        import timm

        size, arguments = TIMM[name]
        return timm.create_model(name, pretrained=False, num_classes=5, **arguments), image(size)

    return make


def _transformers(model, configuration, example, **values) -> Callable:
    def make():
        torchvision()
        import transformers

        config = getattr(transformers, configuration)(**values)
        return getattr(transformers, model)(config), example

    return make


SMALL = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32, "vocab_size": 50}
LONG = {"max_position_embeddings": 32}
WORDS = {"input_ids": tokens(8)}
MASKED = {"input_ids": tokens(8), "attention_mask": np.array([1, 1, 1, 1, 1, 1, 0, 0])}
TRANSFORMERS = {
    "gpt2": _transformers(
        "GPT2LMHeadModel", "GPT2Config", WORDS, n_embd=16, n_layer=2, n_head=2, n_positions=32, vocab_size=50
    ),
    "bert": _transformers("BertForSequenceClassification", "BertConfig", MASKED, **SMALL, **LONG),
    "distilbert": _transformers(
        "DistilBertForSequenceClassification", "DistilBertConfig", MASKED,
        dim=16, n_layers=2, n_heads=2, hidden_dim=32, vocab_size=50, max_position_embeddings=32,
    ),
    "roberta": _transformers("RobertaForSequenceClassification", "RobertaConfig", MASKED, **SMALL, **LONG),
    "albert": _transformers(
        "AlbertForSequenceClassification", "AlbertConfig", MASKED, embedding_size=8, **SMALL, **LONG
    ),
    "electra": _transformers(
        "ElectraForSequenceClassification", "ElectraConfig", MASKED, embedding_size=8, **SMALL, **LONG
    ),
    "llama": _transformers("LlamaForCausalLM", "LlamaConfig", WORDS, num_key_value_heads=1, **SMALL, **LONG),
    "mistral": _transformers(
        "MistralForCausalLM", "MistralConfig", WORDS, num_key_value_heads=1, sliding_window=4, **SMALL, **LONG
    ),
    "qwen2": _transformers("Qwen2ForCausalLM", "Qwen2Config", WORDS, num_key_value_heads=1, **SMALL, **LONG),
    "gpt_neox": _transformers("GPTNeoXForCausalLM", "GPTNeoXConfig", MASKED, **SMALL, **LONG),
    "opt": _transformers(
        "OPTForCausalLM", "OPTConfig", MASKED,
        hidden_size=16, num_hidden_layers=2, num_attention_heads=2, ffn_dim=32, vocab_size=50, word_embed_proj_dim=16,
        max_position_embeddings=32,
    ),
    "t5_encoder": _transformers(
        "T5EncoderModel", "T5Config", MASKED, d_model=16, d_kv=8, d_ff=32, num_layers=2, num_heads=2, vocab_size=50
    ),
    "mamba": _transformers(
        "MambaForCausalLM", "MambaConfig", WORDS, hidden_size=16, num_hidden_layers=2, state_size=4, vocab_size=50
    ),
    "vit": _transformers(
        "ViTForImageClassification", "ViTConfig", {"pixel_values": image(16)},
        image_size=16, patch_size=8, **{k: v for k, v in SMALL.items() if k != "vocab_size"},
    ),
    "clip_vision": _transformers(
        "CLIPVisionModelWithProjection", "CLIPVisionConfig", {"pixel_values": image(16)},
        image_size=16, patch_size=8, projection_dim=8, **{k: v for k, v in SMALL.items() if k != "vocab_size"},
    ),
}  # fmt: skip


def _whisper():
    torchvision()
    from transformers import WhisperConfig
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    config = WhisperConfig(
        d_model=16,
        encoder_layers=2,
        encoder_attention_heads=2,
        encoder_ffn_dim=32,
        num_mel_bins=8,
        max_source_positions=10,
    )
    return WhisperEncoder(config), np.random.default_rng(0).normal(size=(8, 20)).astype(np.float32)


TRANSFORMERS["whisper_encoder"] = _whisper
# of several outputs without logits
OUTPUTS = {"t5_encoder": "last_hidden_state", "whisper_encoder": "last_hidden_state", "clip_vision": "image_embeds"}

MODELS = (
    {f"torchvision {name}": _vision(name) for name in TORCHVISION}
    | {f"timm {name}": _timm(name) for name in TIMM}
    | {f"transformers {name}": make for name, make in TRANSFORMERS.items()}
)


def made(name: str):
    """The module, in inference mode, with parameters moved so that none agrees because it is zero; and one example."""
    import torch

    package = name.split()[0]
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed: pip install 'corollary[zoo]'")
    torch.manual_seed(0)
    module, example = MODELS[name]()
    with torch.no_grad():
        for p in module.parameters():
            p += 0.02 * torch.randn_like(p)
    return module.eval(), example, OUTPUTS.get(name.split()[-1])
