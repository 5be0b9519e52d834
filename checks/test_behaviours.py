"""Some sixty behaviours of real models and servers, played by scripts: the right verdict and cause, and a true log.

Each is asked five single questions and, where it fits, two conversations. `pytest checks/test_behaviours.py -s` prints
a table at the end.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.scripted_rules import ScriptSource, read_script
from tests.serve_parts import serving

from tunecheck import (
    ConversationTarget,
    MatchEvaluator,
    MultiTurnStateEvaluator,
    UnansweredError,
    evaluate,
    load_endpoint,
)
from tunecheck.endpoints import ChatRequest, Completion
from tunecheck.formats import without_thoughts

Calls = list[tuple[str, dict[str, Any]]]
Values = dict[str, Any]

TOOLS: Mapping[str, Mapping[str, Values]] = {
    "get_weather": {"city": {"type": "string"}},
    "send_message": {"to": {"type": "string"}, "text": {"type": "string"}},
    "book_table": {"city": {"type": "string"}, "seats": {"type": "integer"}, "wishes": {"type": "array"}},
    "convert": {"amount": {"type": "number"}, "source": {"type": "string"}, "target": {"type": "string"}},
}
ROWS: Mapping[str, tuple[str, Calls]] = {
    "weather": ("How is the weather in Paris?", [("get_weather", {"city": "Paris"})]),
    "message": ("Tell Ana: see you at five.", [("send_message", {"to": "Ana", "text": "see you at five"})]),
    "table": (
        "A table for 4 in Rome, outside and quiet.",
        [("book_table", {"city": "Rome", "seats": 4, "wishes": ["outside", "quiet"]})],
    ),
    "money": ("How much are 20 dollars in euros?", [("convert", {"amount": 20, "source": "USD", "target": "EUR"})]),
    "both": (
        "How is the weather in Oslo and in Lima?",
        [("get_weather", {"city": "Oslo"}), ("get_weather", {"city": "Lima"})],
    ),
}
CONVERSATIONS: Mapping[str, list[tuple[str, Calls]]] = {
    "folder": [
        ("Make a folder named reports.", [("mkdir", {"dir_name": "reports"})]),
        ("Now go into it.", [("cd", {"folder": "reports"})]),
    ],
    "file": [
        ("Create an empty file plan.txt.", [("touch", {"file_name": "plan.txt"})]),
        ("Remove that file again.", [("rm", {"file_name": "plan.txt"})]),
    ],
}


def tool(name: str, properties: Mapping[str, Values]) -> Values:
    schema = {"type": "object", "properties": dict(properties), "required": list(properties)}
    return {"type": "function", "function": {"name": name, "description": name, "parameters": schema}}


def single_rows() -> list[Values]:
    tools = [tool(name, properties) for name, properties in TOOLS.items()]
    return [
        {
            "id": name,
            "query": [{"role": "user", "content": question}],
            "tools": tools,
            "answer": [{"name": name, "arguments": arguments} for name, arguments in calls],
        }
        for name, (question, calls) in ROWS.items()
    ]


def conversation_rows() -> list[Values]:
    def text(call: tuple[str, Values]) -> str:
        return f"{call[0]}({', '.join(f'{key}={value!r}' for key, value in call[1].items())})"

    root = {"home": {"type": "directory", "contents": {}}}
    return [
        {
            "id": name,
            "turns": [[{"role": "user", "content": said}] for said, _ in turns],
            "involved_classes": ["GorillaFileSystem"],
            "initial_config": {"GorillaFileSystem": {"root": root}},
            "ground_truth": [[text(call) for call in calls] for _, calls in turns],
        }
        for name, turns in CONVERSATIONS.items()
    ]


# -- the behaviours ---------------------------------------------------------------------------------------------------

Change = Callable[[Calls], Calls]
Write = Callable[[Calls], str]


def rules(change: Change = list, write: Write | None = None, **more: Any) -> str:
    """The rules of a model that answers everything right, but for what is done to its calls."""
    everything = [*ROWS.values(), *(turn for turns in CONVERSATIONS.values() for turn in turns)]
    made: list[Values] = [{"when": {"last": "tool"}, "answer": "Done."}]
    for question, calls in everything:
        changed = change(calls)
        said: Values = {"when": {"user": question}, **more}
        if write is not None:
            said["answer"] = write(changed)
        else:
            said["calls"] = [{"name": name, "arguments": arguments} for name, arguments in changed]
        made.append(said)
    return listed(*made)


def listed(*made: Values) -> str:
    return "".join(f"  - {json.dumps(each, ensure_ascii=False)}\n" for each in made)


def always(**said: Any) -> str:
    """The rules of a model that says the same to everything."""
    return listed(said)


def arguments(change: Callable[[Values], Values]) -> Change:
    return lambda calls: [(name, change(values)) for name, values in calls]


def hermes(calls: Calls) -> str:
    objects = (json.dumps({"name": name, "arguments": values}) for name, values in calls)
    return "\n".join(f"<tool_call>\n{each}\n</tool_call>" for each in objects)


def qwen3_coder(calls: Calls) -> str:
    def parameter(key: str, value: Any) -> str:
        text = value if isinstance(value, str) else json.dumps(value)
        return f"<parameter={key}>\n{text}\n</parameter>"

    def call(name: str, values: Values) -> str:
        lines = [f"<function={name}>", *(parameter(*item) for item in values.items()), "</function>"]
        return "\n".join(["<tool_call>", *lines, "</tool_call>"])

    return "\n".join(call(*each) for each in calls)


def fenced(calls: Calls) -> str:
    return f"```json\n{json.dumps([{'name': name, 'arguments': values} for name, values in calls])}\n```"


LONG_THOUGHT = "Let me think about that step by step. " * 20
ALL = ("weather", "message", "table", "money", "both")
CALLED = 'They want {"name": "get_weather", "arguments": {"city": "Bonn"}}'


@dataclass(frozen=True)
class Behaviour:
    """What is played, and what must come of it: by row the cause of its failure; rows that are not named pass."""

    name: str
    rules: str
    top: str = ""
    single: str | Mapping[str, str] | None = None
    conversation: str | None = None
    converses: bool = True
    definition: Mapping[str, Any] | None = None

    def causes(self) -> dict[str, str]:
        return dict.fromkeys(ALL, self.single) if isinstance(self.single, str) else dict(self.single or {})


RIGHT = rules()
LEFT = "call_left_in_text"
"""A production client sees no call: wrong as returned, which is the default for an API that returns calls."""

HERMES = "behaviour: {calls_in_text: hermes}"

BEHAVIOURS = (
    # what is right, however it is served
    Behaviour("healthy", RIGHT),
    Behaviour("reasoning_content", rules(reasoning="They ask.")),
    Behaviour("reasoning", rules(reasoning="They ask."), "behaviour: {reasoning: reasoning}"),
    Behaviour("thinks in the text", rules(reasoning="They ask."), "behaviour: {reasoning: text}"),
    Behaviour("thinks in the text, unopened", rules(reasoning="They ask."), "behaviour: {reasoning: unopened}"),
    Behaviour("hides its reasoning", rules(reasoning=LONG_THOUGHT), "behaviour: {reasoning: dropped}"),
    Behaviour("thinks, then calls in the text", rules(reasoning=CALLED),
              "behaviour: {reasoning: unopened, calls_in_text: hermes}", single=LEFT, conversation=LEFT),
    Behaviour("calls in the text, hermes", RIGHT, HERMES, single=LEFT, conversation=LEFT),
    Behaviour("calls in the text, mistral", RIGHT, "behaviour: {calls_in_text: mistral}", single=LEFT,
              conversation=LEFT),
    Behaviour("calls in the text, python", RIGHT, "behaviour: {calls_in_text: bfcl_text}", single=LEFT,
              conversation=LEFT),
    Behaviour("calls in the text, fenced JSON", rules(write=fenced), single=LEFT, conversation=LEFT),
    Behaviour("calls in the text, XML", rules(write=qwen3_coder), single=LEFT, conversation=LEFT),
    Behaviour("calls in the text, stop token", RIGHT, "behaviour: {calls_in_text: hermes, stop_token: <|im_end|>}",
              single=LEFT, conversation=LEFT),
    Behaviour("words beside the call", rules(answer="Let me see.")),
    Behaviour("arguments are objects", RIGHT, "behaviour: {arguments: objects}"),
    Behaviour("finish_reason stop after calls", RIGHT, "behaviour: {finish_reason: stop}"),
    Behaviour("no usage", RIGHT, "server: {usage: false}"),
    Behaviour("o-series parameters", RIGHT, "server: {parameters: o_series}",
              definition={"parameters": {"max_tokens": 200, "temperature": 0}}),
    Behaviour("answers as a stream only", RIGHT, "server: {streaming: only}", definition={"stream": True}),
    Behaviour("streams its thoughts and calls", rules(reasoning="They ask."), definition={"stream": True}),
    Behaviour("busy at first", listed({"status": 429, "times": 3, "retry_after": 0.01}) + RIGHT),
    Behaviour("fails at first", listed({"status": 503, "times": 2, "retry_after": 0.01}) + RIGHT),
    # how an answer ends
    Behaviour("refusal field", always(refusal="I cannot do that."), single="refusal", conversation="refusal"),
    Behaviour("refuses in English", always(answer="I'm sorry, but I can't help with that."),
              single="refusal", conversation="refusal"),
    Behaviour("refuses in German", always(answer="Es tut mir leid, dabei kann ich nicht helfen."),
              single="refusal", conversation="refusal"),
    Behaviour("prompt filtered", always(content_filter="prompt"), single="filtered", conversation="filtered"),
    Behaviour("answer filtered", always(content_filter="answer"), single="filtered", conversation="filtered"),
    Behaviour("context overflow", RIGHT, "server: {context_tokens: 20}", single="overflow", conversation="overflow"),
    Behaviour("calls cut off", rules(), "behaviour: {cut_at_tokens: 2}", single="cut_off", conversation="cut_off"),
    Behaviour("calls in the text cut off", RIGHT, "behaviour: {calls_in_text: hermes, cut_at_tokens: 10}",
              single="cut_off", conversation="cut_off"),
    Behaviour("budget spent thinking", rules(reasoning=LONG_THOUGHT), "behaviour: {cut_at_tokens: 20}",
              single="thinking_used_budget", conversation="thinking_used_budget"),
    Behaviour("budget spent thinking in the text", rules(reasoning=LONG_THOUGHT),
              "behaviour: {cut_at_tokens: 20, reasoning: text}",
              single="thinking_used_budget", conversation="thinking_used_budget"),
    Behaviour("the same words again and again", always(answer="the weather in "),
              "behaviour: {repeat: 300, cut_at_tokens: 500}", single="cut_off.endless",
              conversation="cut_off.endless"),
    Behaviour("always fails", always(status=500), single="server_fault", conversation="server_fault"),
    Behaviour("not found", always(status=404), single="server_fault", conversation="server_fault"),
    # how calls are written
    Behaviour("double-encoded", RIGHT, "behaviour: {arguments: double_encoded}", single="double_encoded",
              conversation="double_encoded"),
    Behaviour("Python literals", RIGHT, "behaviour: {arguments: python}", single="bad_arguments",
              conversation="bad_arguments"),
    Behaviour("nested arguments as text", RIGHT, "behaviour: {arguments: nested_as_text}",
              single={"table": "double_encoded"}),
    Behaviour("prefixed names", RIGHT, "behaviour: {names: 'functions.{}'}", single="decorated_name",
              conversation="decorated_name"),
    Behaviour("made-up names", rules(lambda calls: [("do_it", values) for _, values in calls]),
              single="unknown_function", conversation="unknown_function"),
    Behaviour("broken JSON", rules(write=lambda calls: "<tool_call>{name: 'x', arguments}</tool_call>"),
              single="unreadable", conversation="unreadable"),
    # what is said in place of calls
    Behaviour("empty answers", always(answer=""), single="empty_answer", conversation="empty_answer"),
    Behaviour("talks", always(answer="It is a pleasant day, and all is well there."),
              single="answered_instead_of_calling", conversation="answered_instead_of_calling"),
    Behaviour("talks Chinese", always(answer="今天天气很好,一切正常。"),
              single="answered_instead_of_calling", conversation="answered_instead_of_calling"),
    Behaviour("asks back", always(answer="Could you tell me which one you mean?"), single="asked_back",
              conversation="asked_back"),
    Behaviour("calls only in its thoughts", always(answer=f"<think>{hermes(ROWS['weather'][1])}</think>Done."),
              single="answered_instead_of_calling", conversation="answered_instead_of_calling"),
    Behaviour("repeats the tools", always(answer=json.dumps(tool("get_weather", {"city": {"type": "string"}}))),
              single="answered_instead_of_calling", conversation="answered_instead_of_calling"),
    Behaviour("tools are not shown", listed({"when": {"tools": False}, "answer": "I need to look that up."}) + RIGHT,
              "server: {tools: ignored}", single="answered_instead_of_calling",
              conversation="answered_instead_of_calling"),
    # which calls are made
    Behaviour("one call only", RIGHT, "behaviour: {one_call: true}", single={"both": "missing_call"}),
    Behaviour("one call too many", rules(lambda calls: [*calls, ("send_message", {"to": "Bo", "text": "hi"})]),
              single="extra_call", converses=False),
    Behaviour("the same call five times", RIGHT, "behaviour: {repeat: 5}", single="loop", converses=False),
    Behaviour("another function", rules(lambda calls: [("convert" if name != "convert" else "get_weather", values)
                                                        for name, values in calls]),
              single="wrong_function", converses=False),
    Behaviour("results are not shown", RIGHT, "server: {tool_results: ignored}", conversation="loop"),
    Behaviour("results are refused", RIGHT, "server: {tool_results: refused}", conversation="server_fault"),
    # what is in them
    Behaviour("an argument is missing", rules(arguments(lambda values: dict([*values.items()][1:]))),
              single="wrong_argument.missing", converses=False),
    Behaviour("an argument more", rules(arguments(lambda values: {**values, "note": "x"})),
              single="wrong_argument.unexpected", converses=False),
    Behaviour("numbers as text",
              rules(arguments(lambda values: {k: str(v) if isinstance(v, int) else v for k, v in values.items()})),
              single={"table": "wrong_argument.number_as_text", "money": "wrong_argument.number_as_text"}),
    Behaviour("shouts", rules(arguments(lambda values: {k: v.upper() + " " if isinstance(v, str) else v
                                                        for k, v in values.items()})),
              single="wrong_argument.case_or_spacing", converses=False),
    Behaviour("lists in another order",
              rules(arguments(lambda values: {k: v[::-1] if isinstance(v, list) else v for k, v in values.items()})),
              single={"table": "wrong_argument.list_order"}),
    Behaviour("percent", rules(arguments(lambda values: {**values, "amount": 0.2} if "amount" in values else values)),
              single={"money": "wrong_argument.number_conversion"}),
)  # fmt: skip


# -- playing them -----------------------------------------------------------------------------------------------------


class Heard(ScriptSource):
    """A scripted model that remembers what it said."""

    def __init__(self, script: Any) -> None:
        super().__init__(script)
        self.said: list[Completion] = []

    async def complete(self, request: ChatRequest) -> Completion:
        completion = await super().complete(request)
        self.said.append(completion)
        return completion


@pytest.fixture(scope="session")
def table() -> Iterator[list[str]]:
    lines: list[str] = []
    yield lines
    print("\n\n| behaviour | single rows: verdict, cause | conversations: verdict, cause | log | ok |")
    print("\n".join(["|---|---|---|---|---|", *lines]))


def source(folder: Path, behaviour: Behaviour) -> Heard:
    path = folder / "script.yaml"
    path.write_text(f"{behaviour.top}\nrules:\n{behaviour.rules}", "utf-8")
    return Heard(read_script(path))


def played(folder: Path, behaviour: Behaviour, *, converse: bool) -> tuple[list[Values], list[Completion]]:
    """The result rows, and what the model said."""
    heard = source(folder, behaviour)
    with serving(heard) as url:
        written = {"kind": "openai", "url": f"{url}/v1", "model": "m", "retries": 3, **(behaviour.definition or {})}
        endpoint = load_endpoint({**written, "limits": {"concurrency": 1}})
        mapping = {} if converse else {"ground_truth": "${data.answer}"}
        result: Any
        try:
            result = evaluate(
                data=conversation_rows() if converse else single_rows(),
                target=ConversationTarget(endpoint, step_limit=5) if converse else endpoint,
                evaluators={"judged": MultiTurnStateEvaluator() if converse else MatchEvaluator()},
                evaluator_config={"default": {"column_mapping": mapping}},
                results_dir=folder,
            )
        except UnansweredError as error:  # some behaviours refuse every row, whose causes are looked at all the same
            result = error.result
    return list(result["rows"]), heard.said


def outcome(row: Values) -> str:
    """What became of a row: `pass`, or its cause."""
    passed = next(
        (value for key, value in row.items() if key.startswith("outputs.judged.") and key.endswith("_passed")), None
    )
    return "pass" if passed else str(row.get("cause"))


def told(text: str | None, calls: Any) -> str:
    """What was said in one answer, as text: its calls by name and arguments, else its text."""
    if not calls:
        return text or ""
    functions = [call["function"] for call in calls]
    return json.dumps([[each["name"], text_of(each["arguments"])] for each in functions], ensure_ascii=False)


def text_of(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def refusal_of(completion: Completion) -> str | None:
    refusal = completion.reasoning_fields.get("refusal")
    return refusal if isinstance(refusal, str) else None


def said_by(completions: list[Completion]) -> Counter[tuple[str, Any]]:
    return Counter(
        (told(each.text or refusal_of(each), each.tool_calls), each.finish_reason)
        for each in completions
        if each.finish_reason != "content_filter"
    )


def logged_in(rows: list[Values]) -> Counter[tuple[str, Any]]:
    """What single rows hold: text with its thoughts, calls, and how the answer ended."""
    return Counter(
        (
            told(row.get("outputs.raw_text") or row["outputs.text"], row["outputs.tool_calls"]),
            row["outputs.finish_reason"],
        )
        for row in rows
        if not failed(row)
    )


def failed(row: Values) -> bool:
    return any(key.startswith("error.") for key in row)


def steps_in(rows: list[Values]) -> Counter[str]:
    """What conversations' results and logs hold, step by step; a log that says something else counts as nothing."""
    steps: Counter[str] = Counter()
    for row in rows:
        result = [step for turn in row.get("outputs.result") or [] for step in turn]
        turns = [entry for entry in row.get("outputs.inference_log") or [] if isinstance(entry, dict)]
        entries = [entry for turn in turns for name, entry in turn.items() if name.startswith("step_")]
        logged = [item["content"] for entry in entries for item in entry if item.get("role") == "assistant"]
        assert logged == result, "the log and the result hold the same answers"
        for step in result:
            calls = [next(iter(call.items())) for call in step] if isinstance(step, list) else []
            steps[json.dumps(calls, ensure_ascii=False) if calls else step] += 1
    return steps


def true_log(rows: list[Values], heard: list[Completion]) -> bool:
    """Whether conversations hold each answer of the model once; thoughts stand elsewhere."""
    if any(failed(row) for row in rows):
        return True  # an error takes the place of the log
    held, given = steps_in(rows), Counter(text for (text, _), n in said_by(heard).items() for _ in range(n))
    plain = Counter(without_thoughts(text)[1] for text in given.elements())
    return held == plain


@pytest.mark.parametrize("behaviour", BEHAVIOURS, ids=lambda each: each.name)
def test_a_behaviour_gets_the_right_verdict_and_cause_and_a_true_log(
    tmp_path: Path, behaviour: Behaviour, table: list[str]
) -> None:
    rows, said = played(tmp_path, behaviour, converse=False)
    expected = {name: behaviour.causes().get(name, "pass") for name in ALL}
    found = {row["inputs.id"]: outcome(row) for row in rows}
    log = logged_in(rows) == said_by(said)
    talked: dict[str, str] = {}
    wanted: dict[str, str] = {}
    if behaviour.converses:
        conversations, heard = played(tmp_path, behaviour, converse=True)
        talked = {row["inputs.id"]: outcome(row) for row in conversations}
        wanted = dict.fromkeys(CONVERSATIONS, behaviour.conversation or "pass")
        log = log and true_log(conversations, heard)
    right = (found, talked) == (expected, wanted) and log
    single = ", ".join(sorted(set(found.values())))
    table.append(
        f"| {behaviour.name} | {single} | {', '.join(sorted(set(talked.values()))) or '–'} | "
        f"{'true' if log else 'FALSE'} | {'yes' if right else 'NO'} |"
    )
    assert found == expected
    assert talked == wanted
    assert log
