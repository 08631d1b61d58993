"""Tiny configurations of Hugging Face's models with random weights; nothing is downloaded.

Some are given `labels` and return their own loss, others return scores or states only. No dropout is taken out.
"""

from __future__ import annotations

import torch
import transformers

from benchmarks.architectures.contract import Built, seeded

WORDS, BATCH, STEPS = 256, 2, 16
MASK_FROM = 12


def ids() -> torch.Tensor:
    return torch.randint(4, WORDS, (BATCH, STEPS))


def mask() -> torch.Tensor:
    """All of the first text and most of the second."""
    kept = torch.ones(BATCH, STEPS, dtype=torch.long)
    kept[1, MASK_FROM:] = 0
    return kept


@seeded
def bert() -> Built:
    """A classifier that returns its loss."""
    config = transformers.BertConfig(
        vocab_size=WORDS, hidden_size=64, num_hidden_layers=3, num_attention_heads=4, intermediate_size=256,
        max_position_embeddings=64, num_labels=3,
    )  # fmt: skip
    inputs = {"input_ids": ids(), "attention_mask": mask(), "labels": torch.randint(3, (BATCH,))}
    return transformers.BertForSequenceClassification(config), inputs


@seeded
def distilbert() -> Built:
    """A classifier that returns scores."""
    config = transformers.DistilBertConfig(
        vocab_size=WORDS, dim=64, n_layers=2, n_heads=4, hidden_dim=256, max_position_embeddings=64, num_labels=3
    )
    return transformers.DistilBertForSequenceClassification(config), {"input_ids": ids(), "attention_mask": mask()}


@seeded
def roberta() -> Built:
    """A masked language model with its loss; output and embedding are one matrix."""
    config = transformers.RobertaConfig(
        vocab_size=WORDS, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=256,
        max_position_embeddings=64,
    )  # fmt: skip
    words = ids()
    return transformers.RobertaForMaskedLM(config), {"input_ids": words, "attention_mask": mask(), "labels": words}


@seeded
def gpt2() -> Built:
    """A causal language model with its loss; output and embedding are one matrix."""
    config = transformers.GPT2Config(
        vocab_size=WORDS, n_positions=64, n_embd=64, n_layer=2, n_head=4, bos_token_id=1, eos_token_id=2,
        use_cache=False,
    )  # fmt: skip
    words = ids()
    return transformers.GPT2LMHeadModel(config), {"input_ids": words, "labels": words}


@seeded
def t5() -> Built:
    """An encoder and a decoder with its loss; the decoder reads the labels moved by one."""
    config = transformers.T5Config(
        vocab_size=WORDS, d_model=64, d_kv=16, d_ff=128, num_layers=2, num_heads=4, use_cache=False,
        decoder_start_token_id=0,
    )  # fmt: skip
    inputs = {"input_ids": ids(), "attention_mask": mask(), "labels": torch.randint(4, WORDS, (BATCH, 10))}
    return transformers.T5ForConditionalGeneration(config), inputs


@seeded
def llama() -> Built:
    """Rotary positions, grouped queries, gated linear layers; scores only, positional input."""
    config = transformers.LlamaConfig(
        vocab_size=WORDS, hidden_size=64, intermediate_size=160, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=64, use_cache=False,
    )  # fmt: skip
    return transformers.LlamaForCausalLM(config), (ids(),)
