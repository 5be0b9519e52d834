"""Every sample file of prompt flow and prompty that a loader of theirs takes renders here to the same messages.

What differs stands in a list, with the reason, and is less than one in twenty. `-s` prints the figures.
"""

from __future__ import annotations

import base64
import json
import re
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import jinja2
import pytest
import yaml
from checks.prompts_parts import PROMPTFLOW, PROMPTY, Case, ours, run_theirs
from jinja2 import nodes
from jinja2.meta import find_undeclared_variables
from tests.conftest import ReferenceEnvironment
from tests.reference_environments import AZURE

pytestmark = pytest.mark.slow

DIFFERENT = {
    "eval-basic/eval.prompty": "it writes a variable that it does not declare: nothing there, a required input here",
    "fixtures/multimodal.prompty": "of two inputs in one message the package leaves a mark of its own in the text",
}

REFUSED = ("Prompts/file_ref.prompty", "prompts/config_cascade.prompty")
"""Their connection files hold a key, which is refused here as in the definition of an endpoint."""

_FRONT = re.compile(r"\s*-{3,}[ \t]*\n(.*?)^-{3,}[ \t]*\n?(.*)", re.DOTALL | re.MULTILINE)
_TOOL = {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object", "properties": {}}}}
_CALL = {"id": "c1", "type": "function", "function": {"name": "get_weather", "arguments": "{}"}}
MISSING: dict[str, object] = {
    "prompty_with_multi_tools.json": [_TOOL],
    "prompty_tools.json": [_TOOL],
    "prompty_configuration.json": {"type": "azure_openai", "azure_deployment": "x"},
    "prompty_sample.json": {"question": "q"},
}
"""What prompt flow's samples refer to and the shared folder lacks, made up."""

MESSAGES = [
    {"role": "user", "content": "Hi there"},
    {"role": "assistant", "content": "Hello.\nsecond line"},
    {"role": "user", "content": "And?"},
]
RICH = {
    "thread": MESSAGES,
    "image": "https://example.com/a.png",
    "audio": "https://example.com/a.mp3",
    "file": "https://example.com/a.pdf",
}


@pytest.fixture(scope="module")
def samples(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("samples") / "prompty"
    if not (shared_data / "prompty").is_dir():
        pytest.skip("the sample files are not here")
    shutil.copytree(shared_data / "prompty", folder)
    data = folder / "promptflow/src/promptflow/tests/test_configs/datas"
    data.mkdir()
    for name, value in MISSING.items():
        (data / name).write_text(json.dumps(value))
    (data / "logo.jpg").write_bytes(base64.b64decode("/9j/2wBDAAEBAQEB/9k="))
    return folder


def _values_of(path: Path) -> list[dict[str, object]]:
    """Texts of three sorts for each variable, lists of messages where it is looped over, and the file's own sample."""
    text = path.read_text("utf-8")
    parts = _FRONT.match(text)
    front = (yaml.safe_load(parts[1]) or {}) if parts else {}
    tree = jinja2.Environment().parse(parts[2] if parts else text)
    loops = {
        loop.iter.name: {field.attr for field in loop.find_all(nodes.Getattr) if isinstance(field.node, nodes.Name)}
        for loop in tree.find_all(nodes.For)
        if isinstance(loop.iter, nodes.Name)
    }
    inputs = front.get("inputs") or {}
    named = {item["name"]: item for item in inputs} if isinstance(inputs, list) else inputs
    declared = {name: item or {} for name, item in named.items()} if isinstance(named, dict) else {}
    names = sorted(find_undeclared_variables(tree) | set(declared))
    rounds = [
        {name: _value(name, declared.get(name, {}), loops.get(name), number) for name in names} for number in range(3)
    ]
    sample = _sample(path, front.get("sample"))
    if sample:
        rest = {name: value for name, value in rounds[0].items() if "default" not in declared.get(name, {})}
        rounds.append({**rest, **sample})
    return rounds


def _value(name: str, declared: dict[str, Any], fields: set[str] | None, number: int) -> object:
    if declared.get("kind") in RICH:
        return RICH[declared["kind"]]
    if fields is None:
        return [f"The {name}.", f"two\nlines of {name}\n", "Zoë «¿qué?» {{ x }} 🙂"][number]
    if fields >= {"role", "content"}:
        return MESSAGES
    if "inputs" in fields:
        said: object = {"tool_calls": [_CALL]} if number else "text"
        return [{"inputs": {"question": "q1"}, "outputs": {"answer": "a1", "llm_output": said}}]
    return [{field: f"{field} {index}" for field in fields} or f"item {index}" for index in range(2)]


def _sample(path: Path, given: object) -> dict[str, object]:
    if isinstance(given, dict):
        return given
    name = re.sub(r"^\$\{file:(.*)\}$", r"\1", given) if isinstance(given, str) else ""
    file = path.parent / name
    return json.loads(file.read_text("utf-8")) if name and file.exists() else {}


def _as_they_can_render(case: Case, folder: Path) -> Case:
    """The package for Python has no Nunjucks: what our reading of it takes means the same in Jinja."""
    path, values = case
    text = Path(path).read_text("utf-8")
    if "kind: nunjucks" not in text:
        return case
    copy = folder / Path(path).name
    copy = copy.with_stem(f"{copy.stem}-{len(list(folder.iterdir()))}")
    copy.write_text(text.replace("kind: nunjucks", "kind: jinja2"), "utf-8")
    return copy, values


def test_every_sample_file_renders_as_with_a_loader_of_its_own(
    samples: Path, reference_env: ReferenceEnvironment, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(samples)
    cases: list[Case] = [(path, _values_of(path)) for path in sorted(samples.rglob("*.prompty"))]
    assert len(cases) == 103
    everything = "\n".join(Path(path).read_text("utf-8") for path, _ in cases)
    for name in set(re.findall(r"\$\{env:(\w+)", everything)):
        monkeypatch.setenv(name, "https://example.openai.azure.com" if "ENDPOINT" in name else "value")
    monkeypatch.setenv("PROMPTY_TRUSTED_ENDPOINTS", "https://example.openai.azure.com")
    environments = {"azure": AZURE, "promptflow": (PROMPTFLOW,), "prompty": (PROMPTY,)}
    readable = [_as_they_can_render(case, tmp_path) for case in cases]
    theirs = [
        run_theirs(reference_env(name, *wanted), name, readable)["rendered"] for name, wanted in environments.items()
    ]
    figures: Counter[str] = Counter()
    different: set[str] = set()
    refused: list[str] = []
    for (path, values), *each in zip(cases, *theirs, strict=True):
        if all(ours(path, given) is None for given in values):
            refused.append(str(Path(path).relative_to(samples)))
            continue
        for number, given in enumerate(values):
            expected = [rendered[number] for rendered in each if rendered[number] is not None]
            if expected and ours(path, given) not in expected:
                different.add(str(Path(path).relative_to(samples)))
        figures["taken by a loader"] += any(messages is not None for rendered in each for messages in rendered)
        figures["taken here"] += 1
    print(dict(figures), "different:", sorted(different))
    assert [path for path in different if not path.endswith(tuple(DIFFERENT))] == []
    assert len(different) < figures["taken by a loader"] / 20
    assert [path for path in refused if not path.endswith(REFUSED)] == []
    assert figures["taken here"] == len(cases) - len(REFUSED)
