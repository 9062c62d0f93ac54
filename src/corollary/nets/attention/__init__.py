"""Attention, and the transformers that are made of it."""

from corollary.nets.attention.bert import BERT, PretrainingBERT, Sentences
from corollary.nets.attention.block import EncoderBlock
from corollary.nets.attention.cache import KeyValueCache
from corollary.nets.attention.cost import (
    TransformerCost,
    attention_cost,
    block_parameters,
    crossover_length,
    recurrent_cost,
    sequential_steps,
    transformer_cost,
    transformer_parameters,
)
from corollary.nets.attention.decoder import Decoder, DecoderBlock, PrintedDecoderBlock
from corollary.nets.attention.dot_product import attention_entropy, attention_weights, dot_product_attention
from corollary.nets.attention.embedding import TokenEmbedding
from corollary.nets.attention.encoder import BlockStack, Encoder
from corollary.nets.attention.heads import ClassHead, Span, SpanHead, TokenHead, best_span
from corollary.nets.attention.language_model import LanguageModel, in_dtype, next_token_loss, token_cross_entropy
from corollary.nets.attention.mask import additive_mask, causal_mask
from corollary.nets.attention.masking import Masked, Pairs, mask_tokens, masked_loss, sentence_pairs
from corollary.nets.attention.multi_head import MultiHeadAttention
from corollary.nets.attention.plain import linear_attention, plain_attention, shared_attention, soft_lookup
from corollary.nets.attention.positions import LearnedPositions, random_positions, shift_rotation, sinusoidal_positions
from corollary.nets.attention.queries import AttentionPooling
from corollary.nets.attention.transformer import Conditioned, Transformer, teacher_forcing_loss
from corollary.nets.attention.vit import ViT, from_patches, patches
from corollary.nets.permutations import equivariance_defect, invariance_defect, permutation_matrix

__all__ = [
    "BERT",
    "AttentionPooling",
    "BlockStack",
    "ClassHead",
    "Conditioned",
    "Decoder",
    "DecoderBlock",
    "Encoder",
    "EncoderBlock",
    "KeyValueCache",
    "LanguageModel",
    "LearnedPositions",
    "Masked",
    "MultiHeadAttention",
    "Pairs",
    "PretrainingBERT",
    "PrintedDecoderBlock",
    "Sentences",
    "Span",
    "SpanHead",
    "TokenEmbedding",
    "TokenHead",
    "Transformer",
    "TransformerCost",
    "ViT",
    "additive_mask",
    "attention_cost",
    "attention_entropy",
    "attention_weights",
    "best_span",
    "block_parameters",
    "causal_mask",
    "crossover_length",
    "dot_product_attention",
    "equivariance_defect",
    "from_patches",
    "in_dtype",
    "invariance_defect",
    "linear_attention",
    "mask_tokens",
    "masked_loss",
    "next_token_loss",
    "patches",
    "permutation_matrix",
    "plain_attention",
    "random_positions",
    "recurrent_cost",
    "sentence_pairs",
    "sequential_steps",
    "shared_attention",
    "shift_rotation",
    "sinusoidal_positions",
    "soft_lookup",
    "teacher_forcing_loss",
    "token_cross_entropy",
    "transformer_cost",
    "transformer_parameters",
]
