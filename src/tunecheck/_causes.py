"""Why a row failed, in one code: the causes in the order in which they are looked for, what to try, and their words."""

import re
from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple, TypeAlias

from tunecheck.plugins import codes

Side: TypeAlias = Literal["serving", "model"]
"""What has to change: how the model is served, or the model."""


class Cause(NamedTuple):
    """One cause: what headings and counts call it, whose fault it is, and what to try."""

    code: str
    title: str
    side: Side
    advice: str


_WRONG = "wrong_argument"
_EXAMPLES = "train with more of this kind, or describe the tool more clearly"
_FORMATS = "say the format in the description, or accept others by a matching policy"

_ALL = (
    Cause(
        "unreachable",
        "no answer: the service could not be reached",
        "serving",
        "check the url, that the server runs, and the network, its proxy and certificates",
    ),
    Cause("server_fault", "no answer: the service or the target failed", "serving", "look at the server's log"),
    Cause("filtered", "stopped by a content filter", "serving", "change the service's content filter, or the prompt"),
    Cause("overflow", "longer than the context window", "serving", "serve with a longer context, or send fewer tools"),
    Cause("cut_off", "cut off at the token limit", "serving", "raise max_tokens"),
    Cause(
        "thinking_used_budget",
        "the token limit was reached while thinking",
        "serving",
        "raise max_tokens, or limit how much the model thinks",
    ),
    Cause(
        "unreadable",
        "a call cannot be read",
        "model",
        "look at the text: broken calls need training; for another family's form, set format= or that tool parser",
    ),
    Cause(
        "call_left_in_text",
        "a call was left in the text",
        "serving",
        "turn on the server's tool parser, of this model's family",
    ),
    Cause("bad_arguments", "arguments are not a JSON object", "model", "constrain decoding to the schema, or train"),
    Cause(
        "double_encoded",
        "arguments are JSON text within JSON text",
        "serving",
        "check the server's tool parser and chat template: one of them encodes the arguments twice",
    ),
    Cause(
        "unknown_function",
        "called a function that is not among the tools",
        "model",
        "check that the server renders the tools and leaves their names as they are; else train with more tools",
    ),
    Cause("refusal", "refused", "model", "check the system prompt; train with fewer refusals"),
    Cause("loop", "the same call again and again", "model", "check stop tokens, chat template and temperature"),
    Cause(
        "asked_back",
        "asked back instead of calling",
        "model",
        "check that the question holds all that the call needs; else train with calls made at once",
    ),
    Cause(
        "answered_instead_of_calling",
        "answered instead of calling",
        "model",
        "check that the server renders the tools; else train with more calls",
    ),
    Cause("skipped_lookup", "acted without looking up what it needed", "model", _EXAMPLES),
    Cause("against_state", "acted against the state as it was", "model", _EXAMPLES),
    Cause("gave_up", "gave up after an error", "model", "train with errors that are overcome"),
    Cause("unfounded_value", "made up a value that nothing had given", "model", _EXAMPLES),
    Cause("needless_step", "took needless steps", "model", _EXAMPLES),
    Cause("wrong_function", "called the wrong function", "model", "make the tools' descriptions easier to tell apart"),
    Cause("missing_call", "a call is missing", "model", "check that the server allows parallel calls; else train"),
    Cause("extra_call", "called more than it should", "model", "train with questions that need no call, or fewer"),
    Cause(f"{_WRONG}.missing", "an argument is missing", "model", "name it under `required` in the tool definition"),
    Cause(f"{_WRONG}.unexpected", "an argument that is not expected", "model", _EXAMPLES),
    Cause(f"{_WRONG}.schema", "an argument breaks its schema", "model", "constrain decoding to the schema, or train"),
    Cause(f"{_WRONG}.type", "an argument of another type", "model", "constrain decoding to the schema, or train"),
    Cause(f"{_WRONG}.number_as_text", "a number written as text", "model", "give the parameter's type in its schema"),
    Cause(f"{_WRONG}.number_conversion", "a number in another unit", "model", "say the unit in the description"),
    Cause(f"{_WRONG}.date_or_time_format", "a date or time in another format", "model", _FORMATS),
    Cause(f"{_WRONG}.case_or_spacing", "another case or spacing", "model", _FORMATS),
    Cause(f"{_WRONG}.list_order", "a list in another order", "model", "say whether the order of the list matters"),
    Cause(f"{_WRONG}.close_wording", "nearly the same wording", "model", _FORMATS),
    Cause(f"{_WRONG}.other", "an argument with another value", "model", _EXAMPLES),
)

CAUSES: dict[str, Cause] = {cause.code: cause for cause in _ALL}
"""Every cause of the core by its code, in their order: a row has the first that holds."""


def causes() -> Mapping[str, Cause]:
    """Return every cause by its code: the core's in their order, then those that plug-ins bring."""
    brought = {code: Cause(code, each.title, each.side, each.advice) for code, each in codes().items() if each.side}
    return {**CAUSES, **brought}


CUT_OFF = frozenset({"length", "max_tokens", "MAX_TOKENS", "max_output_tokens", "model_length", "token_limit"})
"""The `finish_reason`s that say that an answer was cut off at the token limit, in the words of any service."""

_LOOP = 40


def repeats_itself(text: str) -> bool:
    """Whether a text ends in what it said twice before: a model that finds no end, which more tokens do not help."""
    return len(text) > _LOOP and text.count(text[-_LOOP:]) > 2


METRIC = "cause."
"""How the metrics begin that say which share of all rows has which cause."""


def cause_named(code: str) -> Cause:
    """The cause of that code; of a kind that is not listed, the same with the kind as its title."""
    known = CAUSES.get(code) or causes().get(code)
    if known is not None:
        return known
    head, _, kind = code.partition(".")
    return Cause(code, f"{head.replace('_', ' ')}: {kind.replace('_', ' ')}".rstrip(": "), "model", _EXAMPLES)


_PLACES = {code: place for place, code in enumerate(CAUSES)}


def place_of(code: str) -> int:
    """The place of a cause in the order in which they are looked for; last where it is not listed."""
    return _PLACES.get(code, len(_PLACES))


def in_order(codes: Iterable[str]) -> list[str]:
    """Codes in the order in which causes are looked for; those that are not listed last."""
    return sorted(codes, key=lambda code: (place_of(code), code))


_OVERFLOWS = (
    r"context[_ ](?:length|window|size|limit)|maximum context|longer than the model|too many (?:input )?tokens",
    r"`inputs` tokens|(?:prompt|inputs?|context|request) (?:is|are) too long|prompt contains \d+ tokens",
    r"exceeds? the (?:maximum|available) (?:number of tokens|context|input)",
)
_OVERFLOW = re.compile("|".join(_OVERFLOWS), re.IGNORECASE)
_FILTER = re.compile(r"content[_ ]?(?:filter|policy|management)|ResponsibleAIPolicy", re.IGNORECASE)


def error_cause(error: str) -> str:
    """The cause of a row whose target gave no answer, by the words of its error: those of any server."""
    if _FILTER.search(error):
        return "filtered"
    return "overflow" if _OVERFLOW.search(error) else "server_fault"


# -- what a text without a call does, by its wording in several languages: does it refuse, or ask for something?

_BEGINNING = 300  # characters: refusals begin with what they are
_END = 4_000

_ARE = r"(?:i['’]?m |i am |we['’]?re |we are )"
_CANNOT = (
    r"(?:can(?:['’]t|not)|unable|not able|won['’]t|don['’]t have|do not have"
    r"|not (?:equipped|designed|programmed|authori[sz]ed) to)"
)
_REFUSALS = (
    rf"{_ARE}?(?:very |really |so )?(?:sorry|afraid)\b(?:.{{0,80}}\b|.{{0,160}}\b(?:{_ARE}|i |we )){_CANNOT}",
    rf"{_ARE}?(?:unable|not able) to\b",
    r"(?:i |we )(?:can(?:['’]t|not| not)|won['’]t|will not|am unable to|am not able to|must decline)\b",
    r"(?:i |we )do(?:n['’]t| not) have (?:the ability|access|any tools?)\b",
    r"(?:i )?apologi[sz]e,? .{0,60}\b(?:can(?:['’]t|not)|unable|not able)",
    r"as an ai\b",
    r"(?:es tut mir|tut mir|leider) .{0,60}\b(?:kann|darf|kein)",
    r"ich (?:kann|darf) (?:das |dir |ihnen |dabei )*nicht",
    r"(?:het spijt me|helaas).{0,60}\bkan (?:ik|dat)",
    r"ik kan (?:je |u |dat |hier)*niet",
    r"(?:je suis|désolée?|je m['’]excuse).{0,60}\b(?:ne (?:peux|puis)|pas en mesure)",
    r"je ne (?:peux|puis) pas",
    r"(?:lo siento|lo lamento|disculp).{0,60}\bno (?:puedo|me es posible)",
    r"no puedo (?:ayudar|hacer|realizar|proporcionar)",
    r"(?:mi dispiace|spiacente).{0,60}\bnon (?:posso|sono in grado)",
    r"non posso (?:aiutar|fare|fornir)",
    r"(?:desculpe|sinto muito|lamento).{0,60}\bnão (?:posso|consigo)",
    r"não posso (?:ajudar|fazer|fornecer)",
    r"(?:извините|к сожалению|простите).{0,60}\bне (?:могу|имею)",
    r"я не могу",
    r"(?:抱歉|对不起|對不起|很遗憾|不好意思).{0,40}(?:无法|不能|無法|没有办法)",
    r"我(?:无法|不能|無法)",
    r"(?:申し訳|すみません|恐れ入りますが).{0,60}(?:できません|いたしかねます|できかねます)",
    r"(?:죄송|미안).{0,60}(?:없습니다|없어요|못합니다)",
)

_OFFERS = (
    r"(?:anything|something) else|else i can|(?:can|may) i (?:help|assist)|shall i|should i",
    r"(?:would you like|do you want) (?:me|to (?:know|see|hear))",
    r"if you (?:have|need|want) (?:any|more|further|other|help)",
    r"sonst noch|kann ich (?:dir|ihnen)|autre chose|puis-je|algo más|puedo ayudar|altro|posso ajudar|mais alguma",
)
"""In questions that offer more, as polite answers end, and ask for nothing."""

_ASKED = r"(?:provide|specify|tell|share|give|confirm|clarify|enter|let me know)"
_REQUESTS = (
    rf"please {_ASKED}|(?:could|can) you (?:please )?{_ASKED}",
    r"let me know (?:the|your|which|what|where|when|if)",
    r"i(?:['’]ll)? (?:will )?need (?:to know|(?:some |a few )?more|the|your)",
    r"bitte (?:gib|geben|nenn|teil)|veuillez (?:fournir|préciser|indiquer)",
    r"por favor,? (?:proporcion|indi|dime|especifi|inform|forne)|пожалуйста,? (?:укажите|сообщите|уточните)",
    r"请(?:提供|告诉|告知|问|输入)|請(?:提供|告訴)|教えて(?:ください|いただ)|알려\s?주",
)

# Compiled when they are first used: most runs meet no such text.
_REFUSAL = rf"(?is)(?:unfortunately,? |很|非常)?(?:{'|'.join(_REFUSALS)})"
_OFFER = rf"(?i)\b(?:{'|'.join(_OFFERS)})\b"
_REQUEST = rf"(?i)[?？]|\b(?:{'|'.join(_REQUESTS)})"
_SENTENCE = r"[^.!?。！？\n]*+[.!?。！？\n]?"


def refuses(text: str) -> bool:
    """Whether a text begins as refusals do. Services do not mark them reliably."""
    return re.match(_REFUSAL, text.lstrip()[:_BEGINNING]) is not None


def asks_back(text: str) -> bool:
    """Whether a text asks the user for something, beyond whether there is more to do."""
    sentences = re.findall(_SENTENCE, text[-_END:])
    return any(re.search(_REQUEST, sentence) and not re.search(_OFFER, sentence) for sentence in sentences)
