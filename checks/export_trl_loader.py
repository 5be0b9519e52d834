"""Prepares exported files with TRL's own trainers, a tiny model and a tokenizer of bytes; prints what they train on.

Runs in an environment of its own: `python export_trl_loader.py SFT.jsonl DPO.jsonl`.
"""

import json
import sys
import tempfile

from datasets import load_dataset  # type: ignore[attr-defined]  # mypy takes the workspace's folder for it
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast
from trl import DPOConfig, DPOTrainer, SFTConfig, SFTTrainer

TEMPLATE = (
    "{% for tool in tools or [] %}<|tool|>{{ tool.function.name }}{% endfor %}"
    "{% for message in messages %}<|{{ message.role }}|>{{ message.content or '' }}"
    "{% for call in message.tool_calls or [] %}{{ call.function | tojson }}{% endfor %}"
    "{% if message.role == 'assistant' %}<|end|>{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
"""Of a model that takes the arguments of calls as objects, as most do."""


def tokenizer() -> PreTrainedTokenizerFast:
    """Every byte is a token."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    bytewise = Tokenizer(models.BPE({letter: at for at, letter in enumerate(alphabet)}, []))
    bytewise.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    bytewise.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(
        tokenizer_object=bytewise, eos_token="<|end|>", pad_token="<|pad|>", chat_template=TEMPLATE
    )


def saved_model(words: PreTrainedTokenizerFast, folder: str) -> str:
    """Where a model of a few weights is saved; trainers look models up by their place."""
    config = GPT2Config(vocab_size=len(words), n_positions=1 << 15, n_embd=8, n_layer=1, n_head=1)
    GPT2LMHeadModel(config).save_pretrained(folder)
    words.save_pretrained(folder)
    return folder


def sft(path: str, words: PreTrainedTokenizerFast, out: str) -> list[str]:
    """By example, the text of the tokens that count."""
    rows = load_dataset("json", data_files=path, split="train")
    settings = SFTConfig(output_dir=out, max_length=None, report_to=[], use_cpu=True, bf16=False)
    trainer = SFTTrainer(model=saved_model(words, out), args=settings, train_dataset=rows, processing_class=words)
    batches = [trainer.data_collator([each]) for each in trainer.train_dataset]
    return [words.decode([token for token in batch["labels"][0].tolist() if token != -100]) for batch in batches]


def dpo(path: str, words: PreTrainedTokenizerFast, out: str) -> list[list[str]]:
    """By example, the texts of what is chosen and what is rejected."""
    rows = load_dataset("json", data_files=path, split="train")
    settings = DPOConfig(output_dir=out, max_length=None, report_to=[], use_cpu=True, bf16=False)
    trainer = DPOTrainer(model=saved_model(words, out), args=settings, train_dataset=rows, processing_class=words)
    return [[words.decode(each[f"{side}_ids"]) for side in ("chosen", "rejected")] for each in trainer.train_dataset]


def main() -> None:
    words = tokenizer()
    with tempfile.TemporaryDirectory() as out:
        print(json.dumps({"sft": sft(sys.argv[1], words, out), "dpo": dpo(sys.argv[2], words, out)}))


if __name__ == "__main__":
    main()
