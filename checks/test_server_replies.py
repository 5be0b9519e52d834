"""How servers send right answers, well and badly, down to the byte: the row passes, or its cause is not the model's.

Each behaviour is asked a question that needs a call and one that needs a text. Whatever a server does to the model's
right answers, no cause has the side `model`. `pytest checks/test_server_replies.py -s` prints a table at the end.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from tests.fault_server import FaultServer, Plan, Request, Step, answer, failing, raw

from tunecheck import MatchEvaluator, UnansweredError, evaluate
from tunecheck.endpoints import load_endpoint
from tunecheck.plugins import causes

Values = dict[str, Any]

ARGUMENTS = {"to": "Zoë", "text": "I come at 5", "tags": ["a", "b"], "count": 2}
PROPERTIES = {"to": "string", "text": "string", "tags": "array", "count": "integer"}
SCHEMA = {"type": "object", "properties": {name: {"type": kind} for name, kind in PROPERTIES.items()}}
TOOL = {"type": "function", "function": {"name": "send_message", "description": "Send.", "parameters": SCHEMA}}
ASKED, TOLD = "Tell Zoë twice that I come at 5.", "Say hello to me, and nothing else."
SYSTEM = "You are a helpful assistant."
TEXT = "Hello, my friend, how are you today?"
ROWS = [
    {
        "id": name,
        "query": [{"role": "system", "content": SYSTEM}, {"role": "user", "content": question}],
        "tools": [TOOL],
        "answer": expected,
    }
    for name, question, expected in (
        ("call", ASKED, [{"name": "send_message", "arguments": ARGUMENTS}]),
        ("text", TOLD, TEXT),
    )
]


# -- right answers, and what is done to them


def is_call(request: Request) -> bool:
    asked: Any = request.json()
    return bool(asked["messages"][-1]["content"] == ASKED)


def message(request: Request, arguments: object = None, **function: object) -> Values:
    """The model's right answer, with other arguments or another name if there is a call."""
    if not is_call(request):
        return {"role": "assistant", "content": TEXT}
    written = json.dumps(ARGUMENTS) if arguments is None else arguments
    called = {"name": "send_message", "arguments": written, **function}
    return {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "type": "function", "function": called}]}


def reply(said: Values, finish: object = None, **more: object) -> Values:
    reason = ("tool_calls" if said.get("tool_calls") else "stop") if finish is None else finish
    choice = {"index": 0, "message": said, "finish_reason": reason}
    return {"object": "chat.completion", "model": "m", "choices": [choice], "usage": {"completion_tokens": 9}, **more}


def sends(change: Callable[[Values], Values], **more: object) -> Plan:
    """A server that changes the model's message."""
    return lambda request, _: answer(reply(change(message(request)), **more))


def writes(arguments: object, **function: object) -> Plan:
    """A server that writes a call's arguments or name in this way."""
    return lambda request, _: answer(reply(message(request, arguments, **function)))


def body(change: Callable[[bytes], bytes], content_type: str = "application/json", **headers: str) -> Plan:
    """A server that changes the bytes of its reply."""
    return lambda request, _: raw(change(json.dumps(reply(message(request))).encode()), content_type, 200, **headers)


def first(step: Step) -> Plan:
    """A server that fails once."""
    return lambda request, attempt: step if attempt == 0 else answer(reply(message(request)))


def always(step: Step) -> Plan:
    return lambda *_: step


# -- streams

Pieces = list[Values]


def delta(said: Values, finish: str | None = None, index: int = 0) -> Values:
    return {"choices": [{"index": index, "delta": said, "finish_reason": finish}]}


def part(text: str | None, **function: object) -> Values:
    return delta({"tool_calls": [{"index": 0, "function": {"arguments": text, **function}}]})


def pieces(request: Request, size: int = 8) -> Pieces:
    said = message(request)
    if not is_call(request):
        return [*(delta({"content": TEXT[at : at + size]}) for at in range(0, len(TEXT), size)), delta({}, "stop")]
    (call,) = said["tool_calls"]
    text = call["function"]["arguments"]
    begun = delta({"tool_calls": [{"index": 0, **call, "function": {**call["function"], "arguments": ""}}]})
    return [begun, *(part(text[at : at + size]) for at in range(0, len(text), size)), delta({}, "tool_calls")]


def stream(
    change: Callable[[Pieces], Sequence[Any]] = list,
    end: str = "\n\n",
    start: str = "data: ",
    *,
    done: bool = True,
    kind: str = "text/event-stream",
) -> Plan:
    """A server that streams its answer, with changed pieces or events."""

    def plan(request: Request, attempt: int) -> Step:
        events = [each if isinstance(each, str) else json.dumps(each) for each in change(pieces(request))]
        return raw("".join(f"{start}{each}{end}" for each in [*events, *["[DONE]"] * done]).encode(), kind)

    return plan


def so_far(made: Pieces) -> Pieces:
    """Each piece repeats the text before it."""
    text, changed = "", list[Values]()
    for piece in made:
        said = piece["choices"][0]["delta"]
        for holder in (said, *(call["function"] for call in said.get("tool_calls", ()))):
            for key in holder.keys() & {"content", "arguments"}:
                text += holder[key]
                holder[key] = text
        changed.append(piece)
    return changed


def repeated(made: Pieces) -> Pieces:
    """The last piece repeats the whole, with other spaces."""
    whole = part(json.dumps(ARGUMENTS, separators=(",", ":"))) if len(made) > 9 else delta({"content": TEXT})
    return [*made[:-1], whole, made[-1]]


def changed(made: Pieces, text: Callable[[str], object], **function: object) -> Pieces:
    """The pieces of a call with other arguments, and keys added to its function."""
    for piece in made:
        for call in piece["choices"][0]["delta"].get("tool_calls", ()):
            call["function"] = {**call["function"], "arguments": text(call["function"]["arguments"]), **function}
    return made


# -- the behaviours


@dataclass(frozen=True)
class Behaviour:
    """What a server does, and the outcomes of the call and the text: `pass` or the cause."""

    name: str
    plan: Plan
    call: str = "pass"
    text: str = "pass"
    definition: Mapping[str, Any] = field(default_factory=dict)


FAULT = "server_fault"
QUOTED = json.dumps(ARGUMENTS)
STREAM = {"stream": True}
CHATML = "".join(f"<|im_start|>{role}\n{text}<|im_end|>\n" for role, text in (("system", SYSTEM), ("user", ASKED)))
HERMES = f"<tool_call>{json.dumps({'name': 'send_message', 'arguments': ARGUMENTS})}</tool_call>"


def of_call(**keys: object) -> Callable[[Values], Values]:
    """Keys that replace those of a message with a call."""
    return lambda said: {**said, **keys} if said.get("tool_calls") else said


def each_call(**keys: object) -> Callable[[Values], Values]:
    """Keys that replace those of each call."""
    return lambda said: {**said, "tool_calls": [{**call, **keys} for call in said.get("tool_calls", ())]}


def twice(said: Values) -> Values:
    return {**said, "tool_calls": said.get("tool_calls", []) * 2}


BEHAVIOURS = (
    # bytes, headers and connections
    Behaviour("gzip", body(gzip.compress, Content_Encoding="gzip")),
    Behaviour("gzip that ends early", body(lambda whole: gzip.compress(whole)[:90], Content_Encoding="gzip"), FAULT,
              FAULT),
    Behaviour("gzip announced, and not used", body(bytes, Content_Encoding="gzip"), FAULT, FAULT),
    Behaviour("Latin-1", body(lambda whole: json.dumps(json.loads(whole), ensure_ascii=False).replace("\\u00eb", "ë")
              .encode("latin-1"), "application/json; charset=iso-8859-1"), FAULT),
    Behaviour("UTF-16", body(lambda whole: whole.decode().encode("utf-16")), FAULT, FAULT),
    Behaviour("byte order mark", body(lambda whole: b"\xef\xbb\xbf" + whole)),
    Behaviour("shorter than announced", lambda request, _: replace(answer(reply(message(request))), length=9_999,
              then="close"), FAULT, FAULT),
    Behaviour("closed after each reply", lambda request, _: replace(answer(reply(message(request))), then="close")),
    Behaviour("text/plain", body(bytes, "text/plain")),
    Behaviour("a page", always(raw(b"<!doctype html><title>Sign in</title>", "text/html")), FAULT, FAULT),
    Behaviour("NaN beside the answer", body(lambda whole: whole[:-1] + b', "x": NaN}'), FAULT, FAULT),
    Behaviour("a key twice", body(lambda whole: whole[:-1] + b', "usage": null}'), FAULT, FAULT),
    Behaviour("500 lists in lists", body(lambda whole: whole[:-1] + b', "x": ' + b"[" * 500 + b"]" * 500 + b"}"),
              FAULT, FAULT),
    # statuses
    *(Behaviour(f"{status} at first", first(failing(status))) for status in (408, 409, 425, 429, 500, 502, 503)),
    Behaviour("429, after a date in the past", first(failing(429, Retry_After="Wed, 21 Oct 2015 07:28:00 GMT"))),
    Behaviour("429, after less than no time", first(failing(429, Retry_After="-5"))),
    Behaviour("429, soon", first(failing(429, Retry_After="soon"))),
    Behaviour("429, after ages", always(failing(429, Retry_After="9" * 20)), "throttled", "throttled"),
    Behaviour("307", always(raw(b"", status=307, Location="http://127.0.0.1:1/?token=x")), FAULT, FAULT),
    Behaviour("204", always(Step(204)), FAULT, FAULT),
    Behaviour("202 for later", always(answer({"status": "queued", "id": "job-1"})), FAULT, FAULT),
    Behaviour("200 with an error", always(answer({"choices": [], "error": {"message": "no worker"}})), FAULT, FAULT),
    # streams
    Behaviour("stream, not asked for", stream()),
    Behaviour("no stream, asked for", sends(dict), definition=STREAM),
    Behaviour("stream as JSON", stream(kind="application/json"), definition=STREAM),
    Behaviour("events, CRLF", stream(end="\r\n\r\n"), definition=STREAM),
    Behaviour("events with comments", stream(start=": ping\nevent: message\nid: 4\nretry: 10\ndata: "),
              definition=STREAM),
    Behaviour("events without a blank", stream(start="data:"), definition=STREAM),
    Behaviour("events without an empty line", stream(end="\n"), FAULT, FAULT, STREAM),
    Behaviour("no [DONE]", stream(done=False), definition=STREAM),
    Behaviour("no end", stream(lambda made: made[:-1], done=False), FAULT, FAULT, STREAM),
    Behaviour("another choice between", stream(lambda made: [piece for each in made for piece in (
        each, delta({"content": "x"}, index=1))]), definition=STREAM),
    Behaviour("an error in the middle", stream(lambda made: [*made[:2], {"error": {"message": "no memory"}}]), FAULT,
              FAULT,
              STREAM),
    Behaviour("an error as text", stream(lambda made: [*made[:2], "CUDA error"]), FAULT, FAULT, STREAM),
    Behaviour("usage in each piece", stream(lambda made: [{**each, "usage": {"completion_tokens": at}} for at, each in
              enumerate(made)]), definition=STREAM),
    Behaviour("pieces so far", stream(so_far), definition=STREAM),
    Behaviour("the whole at the end", stream(repeated), definition=STREAM),
    Behaviour("null arguments at first", stream(lambda made: changed(made, lambda text: text or None)),
              definition=STREAM),
    Behaviour("the name in each piece", stream(lambda made: changed(made, str, name="send_message")),
              definition=STREAM),
    Behaviour("a piece twice", stream(lambda made: [*made[:2], made[1], *made[2:]] if len(made) > 9 else made),
              "bad_arguments.pieces", definition=STREAM),
    Behaviour("a piece lost", stream(lambda made: [*made[:3], *made[4:]] if len(made) > 9 else made),
              "bad_arguments.pieces", definition=STREAM),
    Behaviour("an empty object at first", stream(lambda made: changed(made, lambda text: text or "{}")),
              "bad_arguments.pieces", definition=STREAM),
    # messages
    Behaviour("function_call", sends(lambda said: {"content": said["content"], "function_call": said["tool_calls"][0]
              ["function"]} if said.get("tool_calls") else said)),
    Behaviour("function_call and no tool_calls", sends(lambda said: {**said, "tool_calls": [], "function_call":
              said["tool_calls"][0]["function"]} if said.get("tool_calls") else said)),
    Behaviour("a call in the text and no tool_calls", sends(of_call(tool_calls=[], content=HERMES)),
              "call_left_in_text"),
    Behaviour("content in parts", sends(lambda said: {**said, "content": [{"type": "text", "text": said["content"]}]})),
    Behaviour("fields that are null", sends(lambda said: {**said, "refusal": None, "audio": None,
              "function_call": None})),
    Behaviour("no message", sends(lambda said: {}, choices=[{"index": 0, "message": None}]), FAULT, FAULT),
    Behaviour("tool_calls as text", sends(lambda said: {**said, "tool_calls": json.dumps(said.get("tool_calls", []))}),
              FAULT, FAULT),
    *(Behaviour(f"id {id_!r}", sends(each_call(id=id_))) for id_ in ("", None, 7)),
    Behaviour("calls without a type", sends(each_call(type=None))),
    Behaviour("each call twice", sends(twice), "doubled_call"),
    *(Behaviour(f"finish_reason {end!r}", sends(dict, finish=end)) for end in ("TOOL_CALLS", "eos_token", 3, "")),
    *(Behaviour(f"cut off, finish_reason {reason}", sends(lambda said: {"content": "Let me"}, finish=reason), "cut_off",
                "cut_off") for reason in ("length", "LENGTH", "max_tokens", "max_new_tokens")),
    *(Behaviour(f"filtered, finish_reason {reason}", sends(lambda said: {"content": ""}, finish=reason), "filtered",
                "filtered") for reason in ("content_filter", "CONTENT_FILTER", "SAFETY", "safety")),
    Behaviour("TOOL_CALLS and none", sends(of_call(tool_calls=None, content="I look."), finish="TOOL_CALLS"),
              "call_lost_by_parser"),
    Behaviour("repeats the question", lambda request, _: answer(reply({"content": f"{ASKED}\nDone."} if is_call(request)
              else {"content": f"{TOLD}\n{TEXT}"})), "echoed_prompt", "echoed_prompt"),
    Behaviour("repeats the prompt", sends(of_call(tool_calls=None, content=f"{CHATML}<|im_start|>assistant\n{HERMES}")),
              "echoed_prompt"),
    *(Behaviour(f"{word} for a call", sends(of_call(tool_calls=None, content=word)), "empty_answer.counted") for word in
      ("null", "None")),
    Behaviour("tokens around the text", sends(lambda said: {**said, "content": "<|im_start|>Good day.<|im_end|>"}
              if said["content"] else said), text="token_in_text"),
    # calls
    Behaviour("no arguments", sends(each_call(function={"name": "send_message"})), "bad_arguments.pieces"),
    Behaviour("encoded twice", writes(json.dumps(QUOTED)), "double_encoded"),
    Behaviour("encoded four times", writes(json.dumps(json.dumps(json.dumps(QUOTED)))), "double_encoded"),
    Behaviour("fenced", writes(f"```json\n{QUOTED}\n```"), "bad_arguments.fenced"),
    Behaviour("an object", writes(ARGUMENTS)),
    *(Behaviour(f"arguments {value!r}", writes(value), "call_lost_by_parser") for value in (5, True, ["Ana"])),
    Behaviour("line breaks between", writes(json.dumps(ARGUMENTS, indent=2))),
    Behaviour("escaped for HTML", writes(QUOTED.replace('"', "&quot;")), "garbled_text"),
    Behaviour("as Latin-1", writes(json.dumps({**ARGUMENTS, "to": "ZoÃ«"})), "garbled_text"),
    Behaviour("cut", writes(QUOTED[:20]), "bad_arguments.pieces"),
    Behaviour("twice", writes(QUOTED * 2), "bad_arguments.pieces"),
    Behaviour("with a tag", writes(QUOTED + "</tool_call>"), "trailing_tag"),
    Behaviour("a call in a call", writes(json.dumps({"name": "send_message", "arguments": ARGUMENTS})),
              "wrapped_arguments"),
    *(Behaviour(f"named {name!r}", writes(None, name=name), cause) for name, cause in (
        (" send_message ", "decorated_name"), ("default_api.send_message", "decorated_name"),
        ("functions.send_message:0", "decorated_name"), ("<tool_call>send_message", "decorated_name.token"),
        (None, "call_lost_by_parser"))),
)  # fmt: skip


@pytest.fixture(scope="session")
def table() -> Iterator[list[str]]:
    lines: list[str] = []
    yield lines
    print("\n\n| behaviour | call | text |")
    print("\n".join(["|---|---|---|", *lines]))


def outcomes(folder: Path, behaviour: Behaviour) -> dict[str, str]:
    """What became of the rows: `pass`, or the cause."""
    with FaultServer(behaviour.plan) as server:
        url = f"{server.url.removesuffix('/score')}/v1"
        endpoint = load_endpoint({"kind": "openai", "url": url, "model": "m", "retries": 1, **behaviour.definition})
        config = {"default": {"column_mapping": {"ground_truth": "${data.answer}"}}}
        result: Any
        try:
            judged = {"judged": MatchEvaluator()}
            run: Values = {"data": ROWS, "evaluators": judged, "evaluator_config": config}
            result = evaluate(**run, target=endpoint, results_dir=folder)
        except UnansweredError as error:
            result = error.result
    return {
        row["row_id"]: "pass" if row.get("outputs.judged.match_passed") else str(row["cause"]) for row in result["rows"]
    }


@pytest.mark.parametrize("behaviour", BEHAVIOURS, ids=lambda each: each.name)
def test_what_a_server_does_to_a_right_answer_is_not_the_models_fault(
    tmp_path: Path, behaviour: Behaviour, table: list[str]
) -> None:
    found = outcomes(tmp_path, behaviour)
    table.append(f"| {behaviour.name} | {found['call']} | {found['text']} |")
    assert found == {"call": behaviour.call, "text": behaviour.text}
    assert all(causes()[cause].side != "model" for cause in found.values() if cause != "pass")
