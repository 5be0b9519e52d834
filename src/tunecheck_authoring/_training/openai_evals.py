"""Exports of OpenAI's hosted Evals: items or a run's output items, and the graders in an eval's definition.

A text grader becomes `graders/NAME.json` (GraderEvaluator), a model grader becomes a judge in `prompty/NAME.prompty`. A
Python grader becomes `evaluators/NAME.py`, which does not load until the user has read and changed it.

An item is `{"item": {…}}` or `{"datasource_item": {…}, "sample": {"input": […], "output": […]}}`. Its row:

| column | source; the first that is not empty |
|---|---|
| `query` | the sample's input, the eval's template filled with the item's values, the item's `messages` or `query` |
| `tools` | the item's `tools` |
| `response` | the last message of the sample's `output`, else its `output_text` and `output_tools` |
| `item` | the item |
"""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import yaml
from msgspec.structs import replace

from tunecheck import ConfigurationError
from tunecheck.datasets import ConversationError, DatasetDefaults, Form, Record, as_tools
from tunecheck.endpoints import content_parts
from tunecheck.plugins import JSON, Missing, discover, dumps, find_value, printable, read_as
from tunecheck.prompts import load_prompt
from tunecheck_authoring._training.graders import VARIABLE, Grader, GraderMessage, fill_template, path_of, read_json

_MISREAD = re.compile(
    r"\{[%#]|^[^\w\n]*(system|developer|user|assistant|function|tool)[^\w\n]*$", re.IGNORECASE | re.MULTILINE
)
"""Texts that a prompt file would misread as blocks or roles: `{% if`, and a line with only `user` or `### System:`."""

_MOST_NAME = 60
"""The most characters of a grader's name in the names of files and metrics."""


class EvalDefinition(msgspec.Struct, frozen=True):
    """An eval's definition; `data_source` may come from one of its runs, as it contains the question's template."""

    testing_criteria: list[Grader]
    data_source: Any = None


def with_graders(path: Path) -> Form:
    """Return the form for an eval's definition, a JSON file, with an evaluator file for each grader.

    Rows get the question from the definition's template. Grader names that evaluators already have get `_grader` added.

    Raises:
        ConfigurationError: The file cannot be read, or a part cannot be converted. The message names file and part.
    """
    definition = read_as(read_json(path), EvalDefinition, str(path))

    known_names = {each.name for each in discover("evaluators") if each.file is None}
    files: dict[str, tuple[str, str]] = {}  # path and text by evaluator
    for number, grader in enumerate(definition.testing_criteria):
        name = re.sub(r"\W+", "_", grader.name[:_MOST_NAME], flags=re.ASCII).strip("_").lower()
        name = name if name.isidentifier() else f"grader_{name or number + 1}"
        # The name of an evaluator gets `_grader`, that of an earlier grader gets the number.
        while name in known_names or name in files:
            name += "_grader" if name in known_names else f"_{number + 1}"

        try:
            files[name] = _evaluator_file(name, grader)
        except (ValueError, ConfigurationError) as error:
            raise ConfigurationError(f"{path}: testing_criteria[{number}]: {error}") from None

    parts = find_value(definition.data_source, ("input_messages", "template"))
    question = read_as([] if isinstance(parts, Missing) else parts, list[GraderMessage], f"{path}: input_messages")
    return replace(FORM, evaluators=(*files,), files=dict(files.values()), rows=partial(item_rows, question=question))


def item_rows(record: Record, number: int, *, question: list[GraderMessage]) -> list[Record]:
    """Return the row of an item, or of an output item of a run, with the sampled answer as response.

    `question` is the template of the question's messages, which the item's values fill. `number` is the record's
    number, which becomes a part of the row's id.

    Raises:
        ConversationError: The record is neither, its tools cannot be read, or it lacks a value that the question's
            template needs.
    """
    item, sample = record.get("item", record.get("datasource_item")), record.get("sample")
    if not isinstance(item, dict):
        raise ConversationError("the record must have an object 'item' or 'datasource_item'")
    sample = sample if isinstance(sample, dict) else {}
    try:
        texts = [fill_template(_text(each.content), {"item": item}) for each in question]
    except ValueError as error:
        raise ConversationError(str(error)) from None

    messages: list[JSON] = [{"role": each.role, "content": text} for each, text in zip(question, texts, strict=True)]
    row: Record = {"id": f"item-{number}", "item": item}
    if query := sample.get("input") or messages or item.get("messages") or item.get("query"):
        row["query"] = query
    if tools := as_tools(item.get("tools"), "'tools'"):
        row["tools"] = tools

    output = sample.get("output")
    if not isinstance(output, list) or not output:
        output = [{"content": sample.get("output_text"), "tool_calls": sample.get("output_tools")}]

    last = {"role": "assistant", **output[-1]} if isinstance(output[-1], dict) else {}
    answer: JSON = [last] if last.get("tool_calls") else last.get("content")
    if answer or answer == "":  # an empty text is an answer, an empty list is none
        row["response"] = answer
    return [row]


def _evaluator_file(name: str, grader: Grader) -> tuple[str, str]:
    """Return the path and the text of an evaluator's file that is equivalent to a grader.

    Raises:
        ValueError, ConfigurationError: the grader cannot be converted.
    """
    if grader.type == "python":
        threshold = 0.5 if grader.pass_threshold is None else grader.pass_threshold
        source = grader.source.replace("\r\n", "\n").replace("\r", "\n")
        # `printable` changes invisible characters, which could hide code.
        if printable(source) != re.sub(r"\s", " ", source):
            raise ValueError("the grader's `source` contains invisible characters; remove these characters")
        return f"evaluators/{name}.py", _STUB.format(name=name, source=source, threshold=threshold)

    if isinstance(grader.input, list):
        text = _prompt(grader, grader.input)
        load_prompt(f"prompty/{name}.prompty", text=text)
        return f"prompty/{name}.prompty", text
    # `path_of` raises ValueError for a variable that the evaluator does not know.
    for found in VARIABLE.finditer(grader.input + grader.reference):
        path_of(found)
    return f"graders/{name}.json", msgspec.json.format(msgspec.json.encode(grader)).decode() + "\n"


_STUB = '''\
"""A Python grader of OpenAI's Evals. Tunecheck has not run this code: read it, then delete the line with `raise`."""

raise RuntimeError("this code comes from OpenAI's Evals: read the file, then delete this line")

{source}


def {name}(response: object, item: dict) -> dict:
    score = grade({{"output_text": response if isinstance(response, str) else ""}}, item)
    return {{"{name}": score, "{name}_result": "pass" if score >= {threshold!r} else "fail"}}
'''


def _prompt(grader: Grader, messages: list[GraderMessage]) -> str:
    """Return the text of a prompt file that is equivalent to a model grader.

    Raises:
        ValueError: a message would be misread as a block or a role, or has an unknown variable, or the labels, the
            model or its parameters contain `${`.
    """
    if grader.type == "label_model":
        passing = {*grader.passing_labels}
        key, answer = "label", f"one of {', '.join(grader.labels)}"
        judge: dict[str, object] = {"labels": {label: int(label in passing) for label in grader.labels}}
        schema: dict[str, object] = {"type": "string", "enum": grader.labels}
    else:
        key, answer = "result", "a number from {:g} to {:g}".format(*grader.range)
        judge = {"range": [*grader.range], "threshold": grader.pass_threshold}
        schema = {"type": "number"}

    texts = [(each.role.replace("developer", "system"), _text(each.content)) for each in messages]
    texts.append(("system", f"Answer with one JSON object with the keys reason (one sentence) and {key} ({answer})."))

    if found := next(filter(None, (_MISREAD.search(text) for _, text in texts)), None):
        raise ValueError(f"the grader's text has {found[0].strip()!r}, reserved in prompt files; reword this line")

    body = "\n\n".join(f"{role}:\n{VARIABLE.sub(_jinja, text)}" for role, text in texts)
    used = {path_of(found)[0] for _, text in texts for found in VARIABLE.finditer(text)}
    inputs = {"item": ("item", "object"), "sample": ("response", "string")}
    # Evals writes `max_completions_tokens`, the API of chat completions `max_completion_tokens`.
    sampling = grader.sampling_params or {}
    chosen = {key.replace("completions_", "completion_"): value for key, value in sampling.items()}

    front = {
        "description": f"A grader of OpenAI's Evals; its judge model was {grader.model}.",
        "model": {"api": "chat", "parameters": {key: value for key, value in chosen.items() if value is not None}},
        "inputs": {name: {"type": kind} for root, (name, kind) in inputs.items() if root in used},
        "outputs": {"reason": {"type": "string"}, key: schema},
        "judge": {"score": key, **{name: value for name, value in judge.items() if value is not None}},
    }

    head = yaml.safe_dump(front, sort_keys=False, allow_unicode=True, width=120)
    if "${" in head:
        raise ValueError("the grader's labels, model or parameters contain '${', reserved in prompt files; replace it")
    return f"---\n{head}---\n{body}\n"


def _jinja(found: re.Match[str]) -> str:
    """Return a variable of a grader's template in Jinja's syntax. The model's answer is called `response` there.

    Raises:
        ValueError: a judge has no such variable.
    """
    root, *steps = path_of(found)
    if root == "item":
        return "{{ item" + "".join(f"[{dumps(step).decode()}]" for step in steps) + " }}"

    if steps not in (["output_text"], ["output_tools"]):
        raise ValueError(f"a judge cannot use the variable {found[0]}; use sample.output_text or sample.output_tools")
    return "{{ response }}"


def _text(content: JSON) -> str:
    """Return the text of a message's content.

    Raises:
        ValueError: A part of the content is no text.
    """
    texts = content_parts({"content": content})
    if not all(isinstance(text, str) for text in texts):
        raise ValueError("a message's `content` has a part that is not text, such as an image; remove this part")
    return "".join(map(str, texts))


FORM = Form(
    "openai-evals",
    "an export of OpenAI's Evals",
    lambda _: False,  # only `datasets convert` reads it
    partial(item_rows, question=[]),
    evaluators=(),
    unit="item",
    own_defaults=DatasetDefaults({"response": "${target.response}"}),
    with_graders=with_graders,
)
