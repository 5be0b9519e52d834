"""A local embedding model, run by sentence-transformers. Each process loads a model once, for the first text.

Nothing is downloaded, no code of a model runs, and a model without all of its weights is refused. A text is cut twice
if it is long: to 100,000 characters before tokenizing, then to the model's limit in tokens. `truncated` says so.
"""

import functools
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from sentence_transformers import SentenceTransformer
from transformers import AutoModel, AutoTokenizer

from tunecheck import ConfigurationError

_MOST_CHARACTERS = 100_000
"""Longer texts are cut to this length before tokenizing. The limit in tokens is much lower."""

_MOST_TOKENS = 2048
"""The most tokens of a text, because attention needs memory in the square of their number."""


class EncodedText(NamedTuple):
    """A text's tokens, with a row of `states` per token. `is_word` is false for special tokens."""

    states: npt.NDArray[np.float32]
    is_word: npt.NDArray[np.bool_]
    truncated: bool


class Embedding(NamedTuple):
    """A text's embedding; `truncated` is true if the text was cut to the model's limit."""

    vector: Sequence[float]
    truncated: bool


class LocalModel:
    """A loaded model. Threads may share it.

    Raises:
        ConfigurationError: the model cannot be loaded.
    """

    def __init__(self, folder: Path) -> None:
        """Load the model and its tokenizer from local files, onto the CPU.

        Raises:
            ConfigurationError: they cannot be loaded.
        """
        try:
            _check_weights(folder)
            model = SentenceTransformer(
                str(folder), device="cpu", local_files_only=True, model_kwargs={"use_safetensors": True}
            )
            self._tokenizer: Any = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        except Exception as error:  # noqa: BLE001 - the libraries' parsers document no errors
            reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
            raise ConfigurationError(f"{folder}: the model cannot be loaded: {reason}; download it again") from error

        self._model: Any = model.float().eval()
        self._encoder: Any = self._model[0].auto_model
        self.layers: int = self._encoder.config.num_hidden_layers

        # sentence-transformers puts the model's default prompt before each text.
        self._prompt = self._model.prompts.get(self._model.default_prompt_name) or ""
        # Special tokens at a text's ends, such as BERT's [CLS] and [SEP].
        self._marks = torch.tensor(self._tokenizer("")["input_ids"], dtype=torch.long)
        self._lock = threading.Lock()

    def embed(self, texts: Sequence[str]) -> list[Embedding]:
        """Return the embedding of each text, and whether it was cut to the model's limit or `_MOST_CHARACTERS`."""
        cleaned = [_encodable(text) for text in texts]
        with self._one_at_a_time():
            vectors = self._model.encode(cleaned, show_progress_bar=False)
            limit = self._model.max_seq_length
            sizes = [self._size(self._prompt + text) for text in cleaned]

        return [
            Embedding(vector.tolist(), truncated=size > limit or len(text) > _MOST_CHARACTERS)
            for vector, size, text in zip(vectors, sizes, texts, strict=True)
        ]

    def encode(self, text: str, layer: int) -> EncodedText:
        """Return the states of a text's tokens after this layer. Texts beyond the model's limit are cut."""
        cleaned = _encodable(text)
        with self._one_at_a_time(), torch.inference_mode():
            # The most tokens that the model has positions for; T5 has no such limit.
            positions = getattr(self._encoder.config, "max_position_embeddings", _MOST_TOKENS)
            limit = min(self._tokenizer.model_max_length, positions, _MOST_TOKENS)
            truncated = self._size(cleaned) > limit or len(text) > _MOST_CHARACTERS

            inputs = self._tokenizer(cleaned, truncation=True, max_length=limit, return_tensors="pt")
            states = self._encoder(**inputs, output_hidden_states=True).hidden_states[layer][0]

        is_word = ~torch.isin(inputs["input_ids"][0], self._marks)
        return EncodedText(states.numpy(), is_word.numpy(), truncated)

    def _size(self, text: str) -> int:
        """Return the number of a text's tokens, special tokens included."""
        return len(self._tokenizer(text, verbose=False)["input_ids"])

    @contextmanager
    def _one_at_a_time(self) -> Iterator[None]:
        """Run one text at a time, on one core: tokenizers are not thread-safe, and runs divide rows among processes."""
        with self._lock:
            threads = torch.get_num_threads()
            torch.set_num_threads(1)
            try:
                yield
            finally:
                torch.set_num_threads(threads)


def _check_weights(folder: Path) -> None:
    """Raise ValueError if the model's files lack weights: transformers would only log this and use random weights."""
    _, found = AutoModel.from_pretrained(folder, local_files_only=True, use_safetensors=True, output_loading_info=True)
    missing = [name for name in found["missing_keys"] if not name.startswith("pooler.")]  # the pooler is not used
    if missing:
        raise ValueError(f"{len(missing)} weights are missing, such as {missing[0]}")


def _encodable(text: str) -> str:
    r"""Return the beginning of a text, with `?` in place of half a surrogate pair ("\ud83d").

    Tokenizers read UTF-8, which cannot encode it.
    """
    return text[:_MOST_CHARACTERS].encode("utf-8", "replace").decode()


_LOADING = threading.Lock()
"""Without it, two threads could load one model twice: `functools.cache` does not wait for a call in another thread."""


def load_model(folder: Path) -> LocalModel:
    """Return the model in a folder, loaded once in this process.

    Raises:
        ConfigurationError: the model cannot be loaded.
    """
    with _LOADING:
        return _loaded(folder)


_loaded = functools.cache(LocalModel)
