"""What the small files beside a model's weights say: its shape, how its texts are cut, how its embedding is formed."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tunecheck._errors import ConfigurationError
from tunecheck._json import JSON, loads
from tunecheck.evaluators._similarity.architecture import Architecture, read_architecture
from tunecheck.evaluators._similarity.places import WEIGHTS, find_model

POOLINGS = {
    "mean": "mean",
    "mean_tokens": "mean",
    # Longer by a factor, which a cosine does not see.
    "mean_sqrt_len_tokens": "mean",
    "cls": "cls",
    "cls_token": "cls",
    "max": "max",
    "max_tokens": "max",
    "lasttoken": "lasttoken",
}
"""The ways from token states to an embedding that are known here, by their names in older and newer files."""

_MOST_TOKENS = 2048
"""More are never read of a text: attention takes memory by their square."""

_NO_CHANGE = ("Transformer", "Normalize")
"""Parts of a model that leave a cosine as it is, or are the encoder itself."""


@dataclass(frozen=True, slots=True)
class Blueprint:
    """A model before it is loaded.

    `pooling` is None, and `pooling_problem` says why, where its embedding is formed in a way not known here; its token
    states can be used all the same. `embedding_tokens` is how much of a text its embedding sees.
    """

    folder: Path
    architecture: Architecture
    tokens: int
    embedding_tokens: int
    pooling: str | None
    pooling_problem: str
    lower_case: bool
    prompt: str

    def digest(self) -> str:
        """16 hex digits that stand for the model's content; reads all of it."""
        files = [*sorted(self.folder.rglob("*.json")), self.folder / WEIGHTS]
        return _digest(tuple((path, path.stat().st_size, path.stat().st_mtime_ns) for path in files))


@functools.lru_cache(maxsize=8)
def _digest(files: tuple[tuple[Path, int, int], ...]) -> str:
    digest = hashlib.blake2b(digest_size=8)
    for path, *_ in files:
        with path.open("rb") as content:
            while block := content.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()


def read_blueprint(name: str) -> Blueprint:
    """The blueprint of the model of that name, or in that folder.

    Raises:
        ConfigurationError: there is no such model, or it is of a kind that is not run here.
    """
    folder = find_model(name)
    architecture = read_architecture(_mapping(folder / "config.json"), f"the embedding model {name!r}")
    sentence = _mapping(folder / "sentence_bert_config.json")
    room = min(architecture.positions, _MOST_TOKENS)
    tokens = min(room, _length(_mapping(folder / "tokenizer_config.json").get("model_max_length"), room))
    pooling, problem = _pooling(folder, name)
    return Blueprint(
        folder=folder,
        architecture=architecture,
        tokens=tokens,
        embedding_tokens=min(room, _length(sentence.get("max_seq_length"), tokens)),
        pooling=pooling,
        pooling_problem=problem,
        lower_case=sentence.get("do_lower_case") is True,
        prompt=_prompt(_mapping(folder / "config_sentence_transformers.json")),
    )


def _pooling(folder: Path, name: str) -> tuple[str | None, str]:
    """How the embedding is formed, or None and why that is not known; the mean where the model does not say."""
    pooling = "mean"
    modules = _json(folder / "modules.json")
    for module in modules if isinstance(modules, list) else []:
        if not isinstance(module, dict):
            continue
        sort = str(module.get("type")).rpartition(".")[2]
        if sort == "Pooling":
            mode = _mode(_mapping(folder / str(module.get("path")) / "config.json"))
            if mode not in POOLINGS:
                return None, f"the embedding model {name!r} pools its tokens by {mode}, which is not done here"
            pooling = POOLINGS[mode]
        elif sort not in _NO_CHANGE:
            return None, f"the embedding model {name!r} ends in a {sort} layer, which is not run here"
    return pooling, ""


def _mode(config: Mapping[str, JSON]) -> str:
    named = config.get("pooling_mode")
    if named is not None:
        return str(named)
    flags = [
        key.removeprefix("pooling_mode_") for key, value in config.items() if key.startswith("pooling_mode_") and value
    ]
    return " and ".join(flags) or "mean"


def _prompt(config: Mapping[str, JSON]) -> str:
    """What the model wants to stand before each text."""
    prompts, chosen = config.get("prompts"), config.get("default_prompt_name")
    found = prompts.get(chosen) if isinstance(prompts, dict) and isinstance(chosen, str) else None
    return found if isinstance(found, str) else ""


def _length(value: JSON, default: int) -> int:
    whole = isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 3
    return int(min(value, _MOST_TOKENS)) if whole and isinstance(value, (int, float)) else default


def _mapping(path: Path) -> Mapping[str, JSON]:
    value = _json(path)
    return value if isinstance(value, dict) else {}


def _json(path: Path) -> JSON:
    """A file's content, None where there is no such file."""
    try:
        return loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{path}: cannot be read: {error}") from None
