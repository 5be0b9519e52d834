"""Where a local embedding model stands, and what the small files beside its weights say.

A model is a folder, an installed package that carries one, or stands in the Hugging Face cache; nothing is ever
downloaded. Its files say how large it is and what its weights are called, how its texts are cut, and how its embedding
is formed. The encoders of BERT's family differ in names, in where positions begin, and in MPNet's relative positions;
the arithmetic is the same.
"""

import functools
import hashlib
import importlib.util
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tunecheck._errors import ConfigurationError
from tunecheck._json import JSON, loads

# -- where it stands

WEIGHTS = "model.safetensors"
_NEEDED = ("config.json", "tokenizer.json", WEIGHTS)
_PICKLED = "pytorch_model.bin"

_PACKAGE = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*\Z")
_IN_CACHE = re.compile(r"(?!.*\.\.)[\w.-]+(?:/[\w.-]+)?\Z", re.ASCII)
_USUAL_OWNER = "sentence-transformers"


def find_model(name: str) -> Path:
    """The folder of a model, by its path or name.

    Raises:
        ConfigurationError: there is none, or it lacks a file.
    """
    for folder in _places(name):
        if is_folder(folder):
            return _complete(folder, name)
    raise ConfigurationError(
        f"there is no embedding model {name!r}: neither a folder, nor an installed package that carries one, nor in "
        f"the Hugging Face cache ({_cache()}); nothing is downloaded here"
    )


def is_folder(path: Path) -> bool:
    """Whether there is such a folder; a name that cannot be one is none."""
    try:
        return path.is_dir()
    except OSError:  # too long, say
        return False


def is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        return False


def _complete(folder: Path, name: str) -> Path:
    missing = [file for file in _NEEDED if not (folder / file).is_file()]
    if not missing:
        return folder.resolve()
    hint = ""
    if WEIGHTS in missing and (folder / _PICKLED).is_file():
        hint = f" ({_PICKLED} may run code when it is read, and is not: convert it to safetensors)"
    raise ConfigurationError(f"the embedding model {name!r} lacks {', '.join(missing)} in {folder}{hint}")


def _places(name: str) -> Iterator[Path]:
    yield Path(name).expanduser()
    if _PACKAGE.match(name):
        yield from _in_package(name.replace("-", "_").replace(".", "_"))
    if _IN_CACHE.match(name):
        yield from _in_cache(name if "/" in name else f"{_USUAL_OWNER}/{name}")


def _in_package(module: str) -> Iterator[Path]:
    """The folders of an installed package that hold a model; the package is not imported."""
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):  # a module that is not a package, half imported or made by hand
        return
    for place in (spec.submodule_search_locations or ()) if spec else ():
        files = [Path(place) / "config.json", *sorted(Path(place).glob("*/config.json"))]
        yield from (path.parent for path in files if is_file(path))


def _in_cache(name: str) -> Iterator[Path]:
    """The snapshot that a name's main branch stood for when it was downloaded."""
    folder = _cache() / f"models--{name.replace('/', '--')}"
    try:
        revision = (folder / "refs" / "main").read_text("ascii").strip()
    except (OSError, ValueError):
        return
    if re.fullmatch(r"[0-9a-f]{7,64}", revision):
        yield folder / "snapshots" / revision


def _cache() -> Path:
    """The cache's folder, by the variables that Hugging Face's own packages read."""
    if hub := os.environ.get("HF_HUB_CACHE"):
        return Path(hub).expanduser()
    home = os.environ.get("HF_HOME") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "huggingface"
    return Path(home).expanduser() / "hub"


# -- its architecture


@dataclass(frozen=True, slots=True)
class LayerNames:
    layer: str = "encoder.layer"
    query: str = "attention.self.query"
    key: str = "attention.self.key"
    value: str = "attention.self.value"
    out: str = "attention.output.dense"
    out_norm: str = "attention.output.LayerNorm"
    up: str = "intermediate.dense"
    down: str = "output.dense"
    down_norm: str = "output.LayerNorm"


_NAMES: Mapping[str, LayerNames] = {
    **dict.fromkeys(("bert", "roberta", "xlm-roberta", "camembert"), LayerNames()),
    "mpnet": LayerNames(
        query="attention.attn.q",
        key="attention.attn.k",
        value="attention.attn.v",
        out="attention.attn.o",
        out_norm="attention.LayerNorm",
    ),
    "distilbert": LayerNames(
        layer="transformer.layer",
        query="attention.q_lin",
        key="attention.k_lin",
        value="attention.v_lin",
        out="attention.out_lin",
        out_norm="sa_layer_norm",
        up="ffn.lin1",
        down="ffn.lin2",
        down_norm="output_layer_norm",
    ),
}

_COUNT_FROM_PADDING = frozenset({"roberta", "xlm-roberta", "camembert", "mpnet"})
_ACTIVATIONS = frozenset({"gelu", "relu"})
_OTHER_KEYS = {"num_hidden_layers": "n_layers", "num_attention_heads": "n_heads", "hidden_act": "activation"}


@dataclass(frozen=True, slots=True)
class Architecture:
    """An encoder's shape. `first_position`: the row of the position table that a text's first token takes."""

    names: LayerNames
    layers: int
    heads: int
    activation: str
    epsilon: float
    first_position: int
    positions: int
    """How many tokens a text may have."""


def read_architecture(config: Mapping[str, JSON], where: str) -> Architecture:
    """The shape of the model that a `config.json` describes; `where` names it in errors."""
    kind = config.get("model_type")
    if not isinstance(kind, str) or kind not in _NAMES:
        raise ConfigurationError(
            f"{where}: models of type {kind!r} are not run here, only {', '.join(_NAMES)}; others can be served by any "
            "server with /v1/embeddings and given as an endpoint"
        )
    activation = _value(config, "hidden_act")
    relative = config.get("position_embedding_type") or "absolute"
    if activation not in _ACTIVATIONS or relative != "absolute":
        raise ConfigurationError(f"{where}: its activation {activation!r} or {relative!r} positions are not run here")
    first = _count(config, "pad_token_id", where, 1) + 1 if kind in _COUNT_FROM_PADDING else 0
    epsilon = config.get("layer_norm_eps")
    return Architecture(
        names=_NAMES[kind],
        layers=_count(config, "num_hidden_layers", where),
        heads=max(1, _count(config, "num_attention_heads", where)),
        activation=str(activation),
        epsilon=epsilon if isinstance(epsilon, float) and 0 < epsilon < 1 else 1e-12,
        first_position=first,
        positions=max(1, _count(config, "max_position_embeddings", where, 512) - first),
    )


def _value(config: Mapping[str, JSON], key: str) -> JSON:
    return config.get(key, config.get(_OTHER_KEYS.get(key, key)))


def _count(config: Mapping[str, JSON], key: str, where: str, default: int | None = None) -> int:
    value = _value(config, key)
    value = default if value is None else value
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 20:
        return value
    raise ConfigurationError(f"{where}: {key} must be a whole number, not {value!r}")


# -- the whole

POOLINGS = {
    # The last of these is longer by a factor, which a cosine does not see.
    **dict.fromkeys(("mean", "mean_tokens", "mean_sqrt_len_tokens"), "mean"),
    **dict.fromkeys(("cls", "cls_token"), "cls"),
    **dict.fromkeys(("max", "max_tokens"), "max"),
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
    prompt = prompts.get(chosen) if isinstance(prompts, dict) and isinstance(chosen, str) else None
    return prompt if isinstance(prompt, str) else ""


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
