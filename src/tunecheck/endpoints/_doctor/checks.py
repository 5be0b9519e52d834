"""The doctor's checks: each looks at some answers and says whether the model is served right, and what to change."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from tunecheck._errors import PluginError
from tunecheck._json import JSON, dumps
from tunecheck._messages import clean
from tunecheck.endpoints._api_facts import ApiFacts
from tunecheck.endpoints._base import output_limit
from tunecheck.endpoints._check import advice_on
from tunecheck.endpoints._doctor import questions
from tunecheck.endpoints._doctor.answers import Answer, decoded
from tunecheck.formats._choosing import chosen

Status: TypeAlias = Literal["pass", "warn", "fail"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one check found: the evidence, what to do, and the keys of the definition to set."""

    status: Status
    evidence: str
    advice: str = ""
    change: Mapping[str, JSON] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Answers:
    """The answers by question, with the definition, the headers of the last reply, and what the API was found to take.

    `sends_tools`: whether requests hold the tools at all; `as_text`: whether calls are expected in the answer's text.
    """

    by_question: Mapping[str, Answer]
    definition: Mapping[str, JSON]
    headers: Mapping[str, str]
    facts: ApiFacts
    sends_tools: bool
    as_text: bool

    def __getitem__(self, question: str) -> Answer:
        return self.by_question[question]

    @property
    def parameters(self) -> dict[str, JSON]:
        """Those of the definition."""
        given = self.definition.get("parameters")
        return given if isinstance(given, dict) else {}

    def answered(self) -> Iterator[Answer]:
        return (answer for answer in self.by_question.values() if not answer.error)


def _passed(evidence: str) -> Verdict:
    return Verdict("pass", evidence)


_FEWEST_TOKENS_OF_A_TOOL = 20
_IN_TEXT = "or, in the definition, tools: text and the family's format:"


def _tools_are_shown(answers: Answers) -> Verdict:
    if not answers.sends_tools:
        return Verdict(
            "warn",
            "the request template holds no ${tools}: the model knows of functions only what a row's messages say",
            f"put ${{tools}} where the service expects them; {_IN_TEXT}; the checks of calls are left out",
        )
    error = answers["call"].error
    if error is not None:
        advice = "vLLM: --enable-auto-tool-choice --tool-call-parser NAME; llama.cpp: --jinja"
        evidence = f"requests with tools are refused: {clean(str(error), 200)}"
        return Verdict("fail", evidence, f"{advice}; {_IN_TEXT}")
    with_tool = answers["call"].completion.usage.input_tokens
    without = answers["untooled"].completion.usage.input_tokens
    if with_tool is None or without is None:
        return Verdict("warn", "the service does not report prompt tokens, so that nobody can tell")
    evidence = f"{with_tool} prompt tokens with a tool, {without} without"
    if with_tool - without >= _FEWEST_TOKENS_OF_A_TOOL:
        return _passed(evidence)
    advice = "use a chat template that shows tools (vLLM: --chat-template)"
    return Verdict("fail", evidence, f"{advice}; {_IN_TEXT}")


_TOOL_PARSERS: Mapping[str, tuple[str, str]] = {
    "hermes": ("hermes", "qwen25"),
    "mistral": ("mistral", "mistral"),
    "llama": ("llama3_json", "llama3"),
    "json": ("llama3_json or xlam", "llama3"),
    "pythonic": ("pythonic or llama4_pythonic", "pythonic"),
    "qwen3_coder": ("qwen3_coder", "qwen3_coder"),
    "glm": ("glm45", "glm45"),
    "deepseek_v3": ("deepseek_v3 or deepseek_v31", "deepseekv3 or deepseekv31"),
    "deepseek_v32": ("deepseek_v32", "deepseekv32"),
    "kimi_k2": ("kimi_k2", "kimi_k2"),
    "kimi_k3": ("kimi_k3", "kimi_k3"),
    "granite": ("granite", ""),
    "granite_20b": ("granite-20b-fc", ""),
    "phi4": ("phi4_mini_json", ""),
    "jamba": ("jamba or hunyuan_a13b", ""),
    "internlm": ("internlm", "interns1"),
    "seed_oss": ("seed_oss", "seed_oss"),
    "minimax_m2": ("minimax_m2", "minimax-m2"),
    "minimax_m3": ("minimax_m3", "minimax-m3"),
    "step_3": ("step3", "step3"),
    "lfm2": ("lfm2", "lfm2"),
    "olmo3": ("olmo3", ""),
    "harmony": ("openai", "gpt-oss"),
    "longcat": ("longcat", ""),
    "command_r7b": ("cohere_command3", ""),
    "apertus": ("apertus", "apertus2509"),
    "gigachat": ("gigachat3", "gigachat3"),
    "gemma4": ("gemma4", "gemma4"),
    "functiongemma": ("functiongemma", ""),
    "minicpm5": ("minicpm5", "minicpm5"),
    "hunyuan_3": ("hy_v3", ""),
}
"""The tool parsers of vLLM and SGLang that read each family's calls, by the name of its format."""


def _calls_are_parsed(answers: Answers) -> Verdict:
    answer = answers["call"]
    if answer.completion.tool_calls:
        read = " (read from the text)" if answer.completion.raw_text else ""
        return _passed(f"{answer.shown()}{read}")
    reading = answer.in_text
    if reading.calls and answers.as_text:
        return _passed(f"calls are read from the text ({reading.format}): {answer.shown()}")
    if reading.calls:
        family = str(reading.format)
        of_vllm, of_sglang = _TOOL_PARSERS.get(family, ("", ""))
        parser = of_vllm or "NAME"
        advice = f"vLLM: --enable-auto-tool-choice --tool-call-parser {parser}"
        advice += f"; SGLang: --tool-call-parser {of_sglang}" * bool(of_sglang)
        change: dict[str, JSON] = {"format": family} if _is_profile(family) else {}
        evidence = f"the call is left in the text, as {family} writes it: {clean(answer.text, 120)}"
        return Verdict("fail", evidence, advice, change)
    if reading.problem:
        return Verdict("fail", f"there is a call that cannot be read: {reading.problem}: {clean(answer.text, 120)}")
    advice = "check that the tools reach the model, and that the server parses its family's calls"
    return Verdict("fail", f"the model answered instead of calling: {answer.shown()}", advice)


def _is_profile(name: str) -> bool:
    try:
        return chosen(name) is not None
    except PluginError:
        return False


def _arguments_are_json(answers: Answers) -> Verdict:
    written = [call for answer in answers.answered() for call in answer.written]
    for name, arguments in written:
        found = _spelling(arguments)
        if found is not None:
            status, problem, advice = found
            shown = clean(arguments if isinstance(arguments, str) else dumps(arguments).decode(), 100)
            return Verdict(status, f"the arguments of {clean(name, 60)} {problem}: {shown}", advice)
    return _passed("JSON objects as text" if written else "no answer has tool_calls")


def _spelling(arguments: JSON) -> tuple[Status, str, str] | None:
    """What is wrong with how a call's arguments are written."""
    if isinstance(arguments, dict):
        return "warn", "are an object, not JSON text", "Tunecheck reads both; other clients of this server may not"
    value = decoded(arguments)
    if isinstance(value, dict):
        return None
    if isinstance(value, str) and isinstance(decoded(value), dict):
        return "fail", "are encoded twice", "the server encodes what is JSON already: update it or its tool parser"
    return "fail", "are no JSON object", "use the tool parser of the model's family, or guided decoding of arguments"


def _names_are_kept(answers: Answers) -> Verdict:
    for answer in answers.answered():
        offered = [str(function.get("name")) for function in _functions(answer)]
        for call in answer.calls:
            meant = next((name for name in offered if answer.call(name) is not None), None)
            if call.name in offered or meant is None:
                continue
            evidence = f"{meant} was offered, and {clean(call.name, 60)} called"
            if call.name == meant.replace(".", "_"):
                advice = "this API has no dots in names: such a call counts as one of the dotted function (names=auto)"
                return Verdict("warn", evidence, advice)
            return Verdict("fail", evidence, "use the tool parser of the model's family; it takes prefixes away")
    dotted = answers["dotted"]
    if dotted.error:
        advice = "rename functions with dots in your data; BFCL's are asked for with underscores"
        return Verdict("warn", f"a function name with a dot is refused: {clean(str(dotted.error), 160)}", advice)
    return _passed("names are called as they were offered, with a dot, too")


def _functions(answer: Answer) -> list[Mapping[str, JSON]]:
    functions = (tool.get("function") for tool in answer.request.tools or ())
    return [function for function in functions if isinstance(function, dict)]


_MODEL_OR_PARSER = "is the raw text right, the tool parser is wrong; else the prompt template, or the model"


def _calls_as(question: str, name: str, wanted: Mapping[str, JSON]) -> Callable[[Answers], Verdict]:
    """A check that a question brings this call."""

    def check(answers: Answers) -> Verdict:
        answer = answers[question]
        arguments = answer.call(name)
        if arguments is None:
            return Verdict("fail", f"{name} was not called, but: {answer.shown()}", _MODEL_OR_PARSER)
        wrong = [key for key, value in wanted.items() if not _same(arguments.get(key), value)]
        if wrong:
            pairs = ", ".join(
                f"{key} is {clean(dumps(arguments.get(key)).decode(), 80)}, not {dumps(wanted[key]).decode()}"
                for key in wrong
            )
            return Verdict("fail", pairs, _MODEL_OR_PARSER)
        return _passed(answer.shown())

    return check


def _same(value: JSON, wanted: JSON) -> bool:
    """Equal as JSON: 1 is not true, and 20.0 is 20."""
    return value == wanted and isinstance(value, bool) == isinstance(wanted, bool)


def _enum_is_obeyed(answers: Answers) -> Verdict:
    arguments = answers["call"].call("get_weather")
    if arguments is None:
        return Verdict("fail", f"get_weather was not called, but: {answers['call'].shown()}", _MODEL_OR_PARSER)
    unit = arguments.get("unit")
    if unit == "celsius":
        return _passed('unit is "celsius", one of the two that are allowed')
    shown = clean(dumps(unit).decode(), 60)
    status: Status = "warn" if unit is None else "fail"
    return Verdict(status, f'unit is {shown}; allowed are "celsius" and "fahrenheit"', _MODEL_OR_PARSER)


def _calls_in_parallel(answers: Answers) -> Verdict:
    answer = answers["parallel"]
    cities = {str(call.arguments.get("city")).lower() for call in answer.calls}
    if all(any(wanted in city for city in cities) for wanted in ("lisbon", "oslo")):
        return _passed(answer.shown())
    evidence = f"two cities were asked for, and {len(answer.calls)} of two calls came: {answer.shown()}"
    return Verdict("warn", evidence, "set parallel_tool_calls, or check that the parser reads more than one call")


def _results_are_understood(answers: Answers) -> Verdict:
    answer = answers["result"]
    if answer.error:
        advice = "the chat template has no place for the role tool: conversations cannot run with tools (--mode text)"
        return Verdict("fail", clean(str(answer.error), 200), advice)
    if str(questions.TEMPERATURE) in answer.text:
        return _passed(answer.shown())
    if answer.calls:
        advice = "the chat template leaves out messages of the role tool: the model does not see results"
        return Verdict("fail", f"it asks again for what it was given: {answer.shown()}", advice)
    return Verdict("fail", f"the result ({questions.TEMPERATURE}) is not in the answer: {answer.shown()}")


def _no_needless_call(answers: Answers) -> Verdict:
    answer = answers["greeting"]
    if answer.calls:
        advice = 'is tool_choice set to "required"? Rows without a call can never pass then'
        return Verdict("fail", f"a greeting was answered with a call: {answer.shown()}", advice)
    return _passed(answer.shown())


def _system_is_obeyed(answers: Answers) -> Verdict:
    answer = answers["system"]
    if questions.CODE_WORD.lower() in answer.text.lower():
        return _passed(answer.shown())
    advice = "the chat template may leave out the role system: put what it says before the user's first message"
    return Verdict("fail", f"{questions.CODE_WORD} is not in the answer: {answer.shown()}", advice)


_HIDDEN_TOKENS = 40
"""So many more tokens than the answer has characters are not explained by counting."""


def _reasoning_is_kept_apart(answers: Answers) -> Verdict:
    leaked = next((answer for answer in answers.answered() if answer.thinks_aloud), None)
    if leaked is not None:
        advice = (
            "vLLM, SGLang: --reasoning-parser NAME (qwen3, deepseek_r1, …); Tunecheck tells it from the answer itself"
        )
        return Verdict("fail", f"the model's reasoning stands in its text: {clean(leaked.raw_text, 120)}", advice)
    completion = answers["untooled"].completion
    if completion.reasoning:
        return _passed(f"given apart: {clean(completion.reasoning, 100)}")
    tokens, thought = completion.usage.output_tokens, completion.usage.reasoning_tokens
    length = len(completion.text or "")
    if thought or (tokens is not None and tokens > length + _HIDDEN_TOKENS):
        advice = "turn its return on, where the service has it: it is paid for, and tells why an answer is wrong"
        evidence = f"{tokens} output tokens for {length} characters of text: there is reasoning, and it is not given"
        return Verdict("warn", evidence, advice)
    return _passed("there is none")


_LIMIT_ADVICE = "raise the server's own limit as well, where it has one"


def _nothing_is_cut_off(answers: Answers) -> Verdict:
    cut = next((answer for answer in answers.answered() if answer.ended_by_length), None)
    if cut is not None:
        tokens = cut.completion.usage.output_tokens
        given = answers.parameters
        limit = output_limit(given)
        evidence = f"cut off after {'?' if tokens is None else tokens} tokens: …{clean(cut.text[-60:])}"
        evidence += f" (the definition allows {limit})" * (limit is not None)
        key = next((name for name in given if "token" in name), "max_tokens")
        return Verdict("fail", evidence, _LIMIT_ADVICE, {"parameters": {**given, key: max(4096, 2 * (limit or 0))}})
    text = answers["count"].text
    if str(questions.LAST_NUMBER) not in text:
        reason = answers["count"].completion.finish_reason
        advice = "some servers cut off and say stop: check their limit of output tokens"
        return Verdict("warn", f"counting ends early, with finish_reason {reason}: …{clean(text[-60:])}", advice)
    return _passed(f"{answers['count'].completion.usage.output_tokens or len(text) // 4} tokens in one answer")


def _finish_reasons_are_true(answers: Answers) -> Verdict:
    called, said = answers["call"].completion, answers["greeting"].completion
    if called.finish_reason is None or said.finish_reason is None:
        if answers.as_text:
            return _passed("this kind of endpoint gives none")
        return Verdict("warn", "no finish_reason is given: cut-off answers look whole")
    if called.tool_calls and called.finish_reason not in ("tool_calls", "function_call", "stop"):
        return Verdict("warn", f"a whole call ends with finish_reason {clean(called.finish_reason)}")
    if said.finish_reason not in ("stop", "end_turn", "eos", "eos_token"):
        return Verdict("warn", f"a whole answer ends with finish_reason {clean(said.finish_reason)}")
    return _passed(f"{clean(called.finish_reason)} after a call, {clean(said.finish_reason)} after a text")


_STOP_TOKEN = re.compile(
    r"<\|(?:im_end|im_start|eot_id|eom_id|end|eot|endoftext|end_of_text|return|user|assistant|observation)\|>|</s>|<eos>"
    r"|<end_of_turn>|<｜end▁of▁sentence｜>|<\|END_OF_TURN_TOKEN\|>|\[/INST\]"
)


def _stop_tokens_are_taken_away(answers: Answers) -> Verdict:
    for answer in answers.answered():
        found = _STOP_TOKEN.search(answer.raw_text)
        if found is not None:
            given = answers.parameters
            stops = given.get("stop")
            listed = stops if isinstance(stops, list) else [] if stops is None else [stops]
            change: Mapping[str, JSON] = {"parameters": {**given, "stop": [*listed, found[0]]}}
            advice = "the server does not know the model's end of turn: set it in its generation_config.json"
            return Verdict("fail", f"{found[0]} is left in the text: {clean(answer.text, 100)}", advice, change)
    return _passed("none in any text")


_REPEAT = "measure with --repeat, and compare runs with that in mind"


def _answers_repeat(answers: Answers) -> Verdict:
    once, again = answers["primes"], answers["primes again"]
    if once.error or again.error:
        return Verdict("warn", f"temperature 0 is refused: {clean(str(once.error or again.error), 160)}")
    if "temperature" in answers.facts.parameters:
        return Verdict("warn", "temperature 0 is not taken: answers are drawn, and differ from run to run", _REPEAT)
    if once.text == again.text:
        return _passed(f"twice the same at temperature 0: {once.shown()}")
    return Verdict("warn", f"two answers at temperature 0: {once.shown()} / {again.shown()}", _REPEAT)


def _streams_are_the_same(answers: Answers) -> Verdict:
    whole, streamed = answers["call"], answers["streamed"]
    if answers.facts.streams:
        return Verdict("warn", "it answers as a stream only, which each run finds out anew", "", {"stream": True})
    if streamed.error is not None:
        return Verdict("warn", f"streams are refused: {clean(str(streamed.error), 160)}", "leave stream: out")
    if [call.name for call in streamed.calls] != [call.name for call in whole.calls] or _lost(whole, streamed):
        advice = "the server's tool parser loses parts of calls in streams: ask without stream:, or update it"
        return Verdict("fail", f"streamed, the call is {streamed.shown()}; whole, it is {whole.shown()}", advice)
    if streamed.completion.usage.output_tokens is None and whole.completion.usage.output_tokens is not None:
        return Verdict("warn", "no tokens are reported in streams: cost is estimated by characters")
    first = streamed.completion.first_token_ms
    return _passed("the same call as a stream" + (f", its first token after {first:.0f} ms" if first else ""))


def _lost(whole: Answer, streamed: Answer) -> bool:
    """Whether arguments that are there as a whole are not there in a stream."""
    return any(one.arguments and not other.arguments for one, other in zip(whole.calls, streamed.calls, strict=True))


def _usage_is_reported(answers: Answers) -> Verdict:
    usage = answers["untooled"].completion.usage
    if usage.input_tokens is None or usage.output_tokens is None:
        return Verdict("warn", "no tokens are reported: cost and token limits are estimated by characters")
    return _passed(f"{usage.input_tokens} tokens in, {usage.output_tokens} out")


def _rate_limits_are_known(answers: Answers) -> Verdict:
    headers = {name.lower(): value for name, value in answers.headers.items()}
    told = headers.get("x-ratelimit-limit-requests")
    limits = answers.definition.get("limits")
    written = limits.get("requests_per_minute") if isinstance(limits, dict) else None
    if told is None:
        return _passed("none are told in headers: 429 is waited for and concurrency lowered")
    evidence = f"{clean(told, 20)} requests a minute"
    if told.isdecimal() and isinstance(written, (int, float)) and written > int(told):
        given = limits if isinstance(limits, dict) else {}
        change: Mapping[str, JSON] = {"limits": {**given, "requests_per_minute": int(told)}}
        return Verdict("warn", f"{evidence} are allowed, and the definition asks for {written:g}", "", change)
    return _passed(evidence)


def _parameters_are_taken(answers: Answers) -> Verdict:
    facts, given = answers.facts, answers.parameters
    refused = [name for name in facts.parameters if name in given]
    sent = facts.parameters_of(given)
    change: dict[str, JSON] = {"parameters": sent} if refused else {}
    problems = [f"{name} is not taken" for name in refused]
    if facts.responses:
        problems.append("it takes requests of the Responses API only, not chat completions")
    if facts.roles:
        problems.append(f"the role {' and '.join(facts.roles)} is not taken")
    if not problems:
        return _passed(", ".join(given) or "none are given")
    advice = "each run finds this out once, and leaves out or renames what is refused"
    return Verdict("warn", "; ".join(problems), advice, change)


@dataclass(frozen=True, slots=True)
class Check:
    """A check by name, with the questions that must have been answered for it.

    `of_calls`: it looks at calls; `of_chat`: at what only chat completions have.
    """

    name: str
    needs: tuple[str, ...]
    judge: Callable[[Answers], Verdict]
    of_calls: bool = True
    of_chat: bool = False

    def verdict(self, answers: Answers) -> Verdict:
        """What it finds; a question that ended in an error is a failure."""
        error = next((answers[name].error for name in self.needs if answers[name].error), None)
        return self.judge(answers) if error is None else Verdict("fail", clean(str(error), 200), advice_on(error))


CHECKS = (
    Check("tools are shown to the model", (), _tools_are_shown, of_calls=False),
    Check("calls are parsed", ("call",), _calls_are_parsed),
    Check("arguments are JSON", ("call",), _arguments_are_json),
    Check("names are kept", ("call",), _names_are_kept),
    Check("enums are obeyed", ("call",), _enum_is_obeyed),
    Check("types are kept", ("typed",), _calls_as("typed", "set_thermostat", questions.SETTINGS)),
    Check("nested arguments", ("nested",), _calls_as("nested", "create_event", questions.EVENT)),
    Check("quotes and scripts", ("quoted",), _calls_as("quoted", "send_message", {"text": questions.QUOTED})),
    Check("long lists of tools", ("long",), _calls_as("long", *questions.MANY_CALL)),
    Check("parallel calls", ("parallel",), _calls_in_parallel),
    Check("tool results are understood", (), _results_are_understood),
    Check("no needless calls", ("greeting",), _no_needless_call),
    Check("finish reasons are true", ("call", "greeting"), _finish_reasons_are_true),
    Check("streams are the same", ("call",), _streams_are_the_same, of_chat=True),
    Check("system prompt is obeyed", ("system",), _system_is_obeyed, of_calls=False),
    Check("reasoning is kept apart", ("untooled",), _reasoning_is_kept_apart, of_calls=False),
    Check("nothing is cut off", ("count",), _nothing_is_cut_off, of_calls=False),
    Check("stop tokens are taken away", ("untooled",), _stop_tokens_are_taken_away, of_calls=False),
    Check("parameters are taken", (), _parameters_are_taken, of_calls=False),
    Check("answers repeat", (), _answers_repeat, of_calls=False),
    Check("usage is reported", ("untooled",), _usage_is_reported, of_calls=False),
    Check("rate limits", ("untooled",), _rate_limits_are_known, of_calls=False),
)
