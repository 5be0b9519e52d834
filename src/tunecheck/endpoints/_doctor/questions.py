"""The questions of the doctor. Each has one right answer, which any model with function calling finds."""

from collections.abc import Mapping
from types import MappingProxyType

from tunecheck._json import JSON
from tunecheck.endpoints._base import ChatRequest

MESSAGES: tuple[Mapping[str, JSON], ...] = (
    {"role": "system", "content": "You are a helpful assistant. Use the functions you are given where they help."},
    {"role": "user", "content": "What is the weather in Lisbon, in celsius?"},
)

TOOLS: tuple[Mapping[str, JSON], ...] = (
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "The current weather of a city.",
            "parameters": {
                "type": "object",
                "properties": {
                    "city": {"type": "string"},
                    "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
                },
                "required": ["city"],
            },
        },
    },
)

CODE_WORD = "HERON"
TEMPERATURE = 17
LAST_NUMBER = 200
QUOTED = 'He said "grüß Gott", it\'s 东京 & <b>C:\\new</b>'

EVENT: Mapping[str, JSON] = {
    "title": "Review",
    "place": {"city": "Porto", "room": "B2"},
    "guests": [{"name": "Ana", "age": 31}, {"name": "Rui", "age": 45}],
}
SETTINGS: Mapping[str, JSON] = {"degrees": 21.5, "heating": True, "zones": [1, 4]}

_TEXT: JSON = {"type": "string"}
_NUMBER: JSON = {"type": "number"}


def _function(name: str, description: str, properties: dict[str, JSON]) -> dict[str, JSON]:
    schema = _object(properties)
    return {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}


def _object(properties: dict[str, JSON]) -> JSON:
    return {"type": "object", "properties": properties, "required": list(properties)}


def _question(text: str, *tools: Mapping[str, JSON], system: str | None = None, **parameters: JSON) -> ChatRequest:
    first: list[Mapping[str, JSON]] = [] if system is None else [{"role": "system", "content": system}]
    return ChatRequest([*first, {"role": "user", "content": text}], tools or None, parameters)


_MANY = tuple(
    _function(
        f"{verb}_{thing}",
        f"{verb.capitalize()} {thing}s of the shop, by {', '.join(keys)} and nothing else, in the user's own words.",
        {key: {"type": "string", "description": f"The {key} of the {thing}, as the user says it."} for key in keys},
    )
    for verb in ("list", "add", "remove", "archive", "print")
    for thing, keys in (
        ("order", ("number", "customer", "status")),
        ("invoice", ("number", "supplier", "due_date")),
        ("parcel", ("code", "carrier", "weight")),
        ("voucher", ("code", "value", "owner")),
        ("ticket", ("code", "seat", "day")),
    )
)
MANY_CALL: tuple[str, Mapping[str, JSON]] = ("archive_voucher", {"code": "V-77", "value": "20 euros", "owner": "Ines"})

_WEATHER_CALL: JSON = {
    "id": "call_weather",
    "type": "function",
    "function": {"name": "get_weather", "arguments": '{"city":"Lisbon","unit":"celsius"}'},
}

_WHICH_WORD = "Which word did I give you?"
_PRIMES = _question(
    "Write the first ten prime numbers, separated by a comma and a blank, and nothing else.", temperature=0
)

QUESTIONS: Mapping[str, ChatRequest] = MappingProxyType(
    {
        "call": ChatRequest(MESSAGES, TOOLS),
        "untooled": ChatRequest(MESSAGES),
        "streamed": ChatRequest(MESSAGES, TOOLS, {"stream": True, "stream_options": {"include_usage": True}}),
        "parallel": _question("What is the weather in Lisbon and in Oslo, in celsius? Ask for both at once.", *TOOLS),
        "nested": _question(
            "Create the event Review in Porto, room B2, with the guests Ana, 31 years old, and Rui, 45 years old.",
            _function(
                "create_event",
                "Put an event into the calendar.",
                {
                    "title": _TEXT,
                    "place": _object({"city": _TEXT, "room": _TEXT}),
                    "guests": {"type": "array", "items": _object({"name": _TEXT, "age": {"type": "integer"}})},
                },
            ),
        ),
        "typed": _question(
            "Set the thermostat to 21.5 degrees with the heating on, in zones 1 and 4.",
            _function(
                "set_thermostat",
                "Set the thermostat.",
                {
                    "degrees": _NUMBER,
                    "heating": {"type": "boolean"},
                    "zones": {"type": "array", "items": {"type": "integer"}},
                },
            ),
        ),
        "quoted": _question(
            f"Send exactly this text, between the lines, to Eva:\n---\n{QUOTED}\n---",
            _function("send_message", "Send a text message.", {"to": _TEXT, "text": _TEXT}),
        ),
        "dotted": _question(
            "When is the next free slot in my calendar on 2026-03-05?",
            _function("calendar.find_slot", "Find the next free slot of a day.", {"day": _TEXT}),
        ),
        "long": _question("Archive the voucher with code V-77, value 20 euros, owner Ines.", *_MANY),
        "result": ChatRequest(
            [
                *MESSAGES,
                {"role": "assistant", "content": None, "tool_calls": [_WEATHER_CALL]},
                {"role": "tool", "tool_call_id": "call_weather", "content": f'{{"celsius": {TEMPERATURE}}}'},
            ],
            TOOLS,
        ),
        "greeting": _question("Hello! Please just greet me back.", *TOOLS),
        "systemless": _question(_WHICH_WORD),
        "system": _question(_WHICH_WORD, system=f"Answer every question with the word {CODE_WORD}."),
        "primes": _PRIMES,
        "primes again": _PRIMES,
        "count": _question(f"Count from 1 to {LAST_NUMBER}, separated by blanks, without leaving any number out."),
    }
)
