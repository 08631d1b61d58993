"""Models of `transformers` from small configurations with random weights; nothing is downloaded."""

from __future__ import annotations

import torch
import transformers as hf
from torch import Tensor, nn


def _token_ids(words: int, rows: int, length: int) -> Tensor:
    return torch.randint(3, words, (rows, length))


def bert(width: int = 64, depth: int = 2, heads: int = 4) -> tuple[nn.Module, dict[str, Tensor]]:
    """BERT with a sequence classifier."""
    config = hf.BertConfig(
        vocab_size=1000,
        hidden_size=width,
        num_hidden_layers=depth,
        num_attention_heads=heads,
        intermediate_size=4 * width,
        max_position_embeddings=64,
        num_labels=3,
    )
    return hf.BertForSequenceClassification(config), {
        "input_ids": _token_ids(1000, 12, 48),
        "attention_mask": torch.ones(12, 48, dtype=torch.long),
        "labels": torch.randint(0, 3, (12,)),
    }


def distilbert(width: int = 64, depth: int = 2, heads: int = 4) -> tuple[nn.Module, dict[str, Tensor]]:
    """DistilBERT that labels tokens of padded sentences; returns logits, no loss."""
    config = hf.DistilBertConfig(
        vocab_size=1000,
        dim=width,
        n_layers=depth,
        n_heads=heads,
        hidden_dim=4 * width,
        max_position_embeddings=64,
        num_labels=7,
    )
    lengths = torch.randint(20, 49, (12, 1))
    return hf.DistilBertForTokenClassification(config), {
        "input_ids": _token_ids(1000, 12, 48),
        "attention_mask": (torch.arange(48) < lengths).long(),
    }


def gpt2(width: int = 64, depth: int = 2, heads: int = 4) -> tuple[nn.Module, dict[str, Tensor]]:
    """GPT-2 with its language-model loss."""
    config = hf.GPT2Config(vocab_size=1000, n_positions=64, n_embd=width, n_layer=depth, n_head=heads)
    tokens = _token_ids(1000, 8, 48)
    return hf.GPT2LMHeadModel(config), {"input_ids": tokens, "labels": tokens.clone()}


def llama(width: int = 64, depth: int = 2, heads: int = 4) -> tuple[nn.Module, dict[str, Tensor]]:
    """Llama with two query heads for each key head, and its language-model loss."""
    config = hf.LlamaConfig(
        vocab_size=1000,
        hidden_size=width,
        intermediate_size=3 * width,
        num_hidden_layers=depth,
        num_attention_heads=heads,
        num_key_value_heads=heads // 2,
        max_position_embeddings=64,
    )
    tokens = _token_ids(1000, 8, 48)
    return hf.LlamaForCausalLM(config), {"input_ids": tokens, "labels": tokens.clone()}


def t5(width: int = 64, depth: int = 2) -> tuple[nn.Module, dict[str, Tensor]]:
    """T5, encoder and decoder of `depth` layers each."""
    config = hf.T5Config(
        vocab_size=800,
        d_model=width,
        d_kv=16,
        d_ff=2 * width,
        num_layers=depth,
        num_heads=4,
        decoder_start_token_id=0,
    )
    return hf.T5ForConditionalGeneration(config), {
        "input_ids": _token_ids(800, 8, 32),
        "labels": _token_ids(800, 8, 16),
    }


def hf_vit(width: int = 64, depth: int = 2, heads: int = 4) -> tuple[nn.Module, dict[str, Tensor]]:
    """Vision Transformer of `transformers`; returns logits, no loss."""
    config = hf.ViTConfig(
        hidden_size=width,
        num_hidden_layers=depth,
        num_attention_heads=heads,
        intermediate_size=4 * width,
        image_size=48,
        patch_size=8,
        num_labels=10,
    )
    return hf.ViTForImageClassification(config), {"pixel_values": torch.randn(16, 3, 48, 48)}


def hf_resnet(width: int = 16, depth: int = 2) -> tuple[nn.Module, dict[str, Tensor]]:
    """ResNet of `transformers` with basic blocks and three stages."""
    config = hf.ResNetConfig(
        embedding_size=width,
        hidden_sizes=[width, 2 * width, 4 * width],
        depths=[depth, depth, depth],
        layer_type="basic",
        num_labels=10,
    )
    return hf.ResNetForImageClassification(config), {
        "pixel_values": torch.randn(8, 3, 64, 64),
        "labels": torch.randint(0, 10, (8,)),
    }
