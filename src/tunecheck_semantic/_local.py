"""A local embedding model: loaded once in a process, when its first text comes."""

import functools
import threading
from collections import OrderedDict
from collections.abc import Sequence
from types import TracebackType
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from safetensors.numpy import load_file
from threadpoolctl import ThreadpoolController
from tokenizers import Tokenizer

from tunecheck._errors import ConfigurationError
from tunecheck_semantic._blueprint import WEIGHTS, Blueprint
from tunecheck_semantic._encoder import Encoder, Matrix


class OneThread:
    """A context that several threads may be in at once: the first to enter sets the limit, the last one lifts it."""

    def __init__(self) -> None:
        self._controller = ThreadpoolController()
        self._lock = threading.Lock()
        self._inside = 0

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._limit = self._controller.limit(limits=1, user_api="blas")
            self._inside += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._limit.restore_original_limits()


_MOST_CHARACTERS = 100_000
"""Of a longer text only so many are looked at; the limit in tokens is reached long before."""

_REMEMBERED_BYTES = 32 << 20

_Ids: TypeAlias = tuple[int, ...]


class Encoded(NamedTuple):
    """A text's tokens: their states (a row each), which of them are words of it, and whether it was cut."""

    states: Matrix
    is_word: npt.NDArray[np.bool_]
    truncated: bool


class _Tokens(NamedTuple):
    ids: _Ids
    truncated: bool


class LocalModel:
    """A model that is loaded. Threads may share it.

    Raises:
        ConfigurationError: it cannot be loaded.
    """

    def __init__(self, blueprint: Blueprint) -> None:
        self._blueprint = blueprint
        try:
            weights = load_file(blueprint.folder / WEIGHTS)
            single = {name: value.astype(np.float32, copy=False) for name, value in weights.items()}
            del weights
            self._encoder = Encoder(blueprint.architecture, single)
            self._tokenizer = Tokenizer.from_file(str(blueprint.folder / "tokenizer.json"))
        except Exception as error:  # noqa: BLE001 - the parsers are not ours, and document no errors
            text = " ".join(f"{type(error).__name__}: {error}".split())[:300]
            raise ConfigurationError(f"the embedding model in {blueprint.folder} cannot be loaded: {text}") from error
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        self._added = frozenset(self._tokenizer.encode("").ids)
        self._recent = _Recent(_REMEMBERED_BYTES)
        self._one_thread = OneThread()

    def encode(self, texts: Sequence[str], layers: int | None = None) -> list[Encoded]:
        return self._encoded([self._tokens(text, self._blueprint.tokens) for text in texts], layers)

    def embed(self, texts: Sequence[str]) -> list[tuple[Matrix, bool]]:
        """The texts' embeddings, of length 1, and whether each text was cut."""
        most = self._blueprint.embedding_tokens
        tokens = [self._tokens(self._blueprint.prompt + text, most) for text in texts]
        return [(self._pooled(encoded.states), encoded.truncated) for encoded in self._encoded(tokens, None)]

    def _tokens(self, text: str, most: int) -> _Tokens:
        # Half of a surrogate pair has no tokens, and no encoding either.
        kept = text[:_MOST_CHARACTERS].encode("utf-8", "replace").decode()
        kept = kept.lower() if self._blueprint.lower_case else kept
        encoding = self._tokenizer.encode(kept, add_special_tokens=False)
        room = max(0, most - self._tokenizer.num_special_tokens_to_add(False))
        truncated = len(encoding) > room or len(text) > _MOST_CHARACTERS
        encoding.truncate(room)
        return _Tokens(tuple(self._tokenizer.post_process(encoding).ids), truncated)

    def _encoded(self, texts: Sequence[_Tokens], layers: int | None) -> list[Encoded]:
        states = self._states([text.ids for text in texts], layers or self._blueprint.architecture.layers)
        return [
            Encoded(
                states[text.ids], np.array([id_ not in self._added for id_ in text.ids], dtype=bool), text.truncated
            )
            for text in texts
        ]

    def _states(self, texts: Sequence[_Ids], layers: int) -> dict[_Ids, Matrix]:
        """The states of each text, equal ones once; what was asked for just now (by another metric) is remembered."""
        known = {ids: self._recent.get((layers, ids)) for ids in texts}
        missing = [ids for ids, states in known.items() if states is None]
        if missing:
            with self._one_thread:
                computed = self._encoder.states(missing, layers)
            for ids, states in zip(missing, computed, strict=True):
                self._recent.add((layers, ids), states)
                known[ids] = states
        return {ids: states for ids, states in known.items() if states is not None}

    def _pooled(self, states: Matrix) -> Matrix:
        pooling = self._blueprint.pooling
        if pooling == "cls":
            vector = states[0]
        elif pooling == "lasttoken":
            vector = states[-1]
        else:
            vector = states.max(axis=0) if pooling == "max" else states.mean(axis=0)
        unit: Matrix = vector / max(float(np.linalg.norm(vector)), 1e-12)
        return unit


class _Recent:
    def __init__(self, most: int) -> None:
        self._most = most
        self._held = 0
        self._states: OrderedDict[tuple[int, _Ids], Matrix] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: tuple[int, _Ids]) -> Matrix | None:
        with self._lock:
            if key in self._states:
                self._states.move_to_end(key)
            return self._states.get(key)

    def add(self, key: tuple[int, _Ids], states: Matrix) -> None:
        with self._lock:
            if key not in self._states:
                self._states[key] = states
                self._held += states.nbytes
            while self._held > self._most and len(self._states) > 1:
                self._held -= self._states.popitem(last=False)[1].nbytes


_LOADING = threading.Lock()


def load_model(blueprint: Blueprint) -> LocalModel:
    """The model, loaded once in this process, whoever asks.

    Raises:
        ConfigurationError: it cannot be loaded.
    """
    with _LOADING:
        return _loaded(blueprint)


_loaded = functools.cache(LocalModel)
