"""The doctor's checks of tools and calls: tools reach the model, and calls come back unchanged."""

from collections.abc import Callable, Mapping

from tunecheck._errors import PluginError
from tunecheck._faults import cause_named
from tunecheck._json import JSON, dumps, text_or_json
from tunecheck._messages import clean, plural
from tunecheck.calls._model import arguments_problem, plain_name, tool_name
from tunecheck.endpoints._doctor.answers import Answers, Diagnosis, DoctorAnswer, Status
from tunecheck.endpoints._doctor.questions import RIGHT
from tunecheck.formats._families import server_parsers
from tunecheck.formats._reading import AUTO, choose_profile

_FEWEST_TOKENS_OF_A_TOOL = 20
_COMMON_FORM = "hermes"
"""The format suggested for models of an unknown family, because most models have seen it."""


def tools_are_shown(answers: Answers) -> Diagnosis:
    """Check by the number of prompt tokens that the model sees the tools; suggest tools as text otherwise."""
    if not answers.sends_tools:
        return Diagnosis(
            "warn",
            "the request template has no ${tools}: the model sees only functions that a row's messages describe",
            "put ${tools} into request:, or set tools: text and format: to the model's family",
        )
    if answers["call"].error is not None:
        advice = f"turn on the tool parser: {answers.serving.advice('calls')}"
        return _told_in_text(answers, f"requests with tools are refused: {answers['call'].refusal}", advice)
    tokens = answers.prompt_tokens
    if tokens is None:
        return Diagnosis("warn", "the service reports no prompt tokens, so this check cannot decide")
    evidence = "{} prompt tokens with a tool, {} without".format(*tokens)
    if _are_shown(answers):
        return Diagnosis("pass", evidence)
    if any(answer.completion.tool_calls for answer in answers.with_calls):
        return Diagnosis("warn", f"{evidence}, but the model calls tools: the service leaves tools out of the count")
    advice = f"use a chat template that shows tools ({answers.serving.advice('tools')})"
    return _told_in_text(answers, evidence, advice)


def _are_shown(answers: Answers) -> bool:
    """Return whether a tool makes the prompt longer; True if the service reports no tokens."""
    with_tool, without = answers.prompt_tokens or (_FEWEST_TOKENS_OF_A_TOOL, 0)
    return with_tool - without >= _FEWEST_TOKENS_OF_A_TOOL


def _told_in_text(answers: Answers, evidence: str, advice: str) -> Diagnosis:
    """Return a failure that suggests describing tools in the prompt (`tools: text`), unless the definition does."""
    if answers.definition.get("tools") == "text":
        return Diagnosis("fail", evidence)
    forms = [str(answers.definition.get("format", AUTO)), *(str(each.in_text.format) for each in answers.left_in_text)]
    known = next((form for form in forms if form != AUTO), None)
    form = known or _COMMON_FORM
    profile = choose_profile(form)
    change: dict[str, JSON] = {"tools": "text", "format": form} if profile and profile.prompt else {}
    guess = "" if known else f" ({form} is a guess: no answer shows the family)"
    return Diagnosis("fail", evidence, f"{advice}; or set tools: text and format: to the model's family{guess}", change)


def calls_are_parsed(answers: Answers) -> Diagnosis:
    """Check that some question was answered with a call that the API returned as one, not in text or reasoning."""
    called, in_text = answers.with_calls, answers.left_in_text
    if in_text and not answers.as_text:
        return _left_in_text(answers, in_text[0])
    if called:
        first = called[0]
        read = " (read from the text)" * (first.is_read_from_text or first in in_text)
        return Diagnosis("pass", f"{first.shown()}{read}")
    with_tools = [answer for answer in answers.answered if answer.request.tools]
    kept_back = next(((answer, answer.kept_back) for answer in with_tools if answer.kept_back), None)
    if kept_back is not None:
        cause = cause_named(str(kept_back[1]))
        excerpt = clean(kept_back[0].completion.reasoning or kept_back[0].raw_text, 120)
        return Diagnosis("fail", f"{cause.title}: {excerpt}", cause.advice)
    broken = next((answer for answer in with_tools if answer.in_text.problem and not answer.ended_by_length), None)
    if broken is not None:
        evidence = f"a call cannot be read: {broken.in_text.problem}: {clean(broken.text, 120)}"
        return Diagnosis("fail", evidence)
    evidence = f"no call in {plural(len(with_tools), 'answer')} to questions with tools: {answers['call'].shown()}"
    if not _are_shown(answers):
        return Diagnosis("skip", evidence)
    return Diagnosis("fail", evidence, "check the chat template, and that the model was trained to call functions")


def _left_in_text(answers: Answers, answer: DoctorAnswer) -> Diagnosis:
    """Return the failure for a call that the server left in the text, with the parser or format that reads it."""
    family = str(answer.in_text.format)
    change: dict[str, JSON] = {"format": family} if _is_profile(family) else {}
    evidence = f"the call is left in the text, in the format {family}: {clean(answer.text, 120)}"
    return Diagnosis("fail", evidence, answers.serving.advice("calls", server_parsers(family, answer.raw_text)), change)


def _is_profile(name: str) -> bool:
    """Return whether a model family of this name has a format profile."""
    try:
        return choose_profile(name) is not None
    except PluginError:
        return False


def arguments_are_json(answers: Answers) -> Diagnosis:
    """Check that the arguments of calls are JSON objects as text, encoded once."""
    of_the_api = (answer for answer in answers.answered if not (answer.ended_by_length or answer.is_read_from_text))
    written = [call for answer in of_the_api for call in answer.written]
    for name, arguments in written:
        found = _spelling(arguments)
        if found is not None:
            status, problem, advice = found
            shown = clean(text_or_json(arguments), 100)
            return Diagnosis(status, f"the arguments of {clean(name, 60)} {problem}: {shown}", advice)
    return Diagnosis("pass", "JSON objects as text") if written else Diagnosis("skip", "no complete call to check")


def _spelling(arguments: JSON) -> tuple[Status, str, str] | None:
    """Return a finding's status, problem and advice for badly encoded arguments; None if they are right."""
    if isinstance(arguments, dict):
        return "warn", "are an object, not JSON text", "Tunecheck reads objects, too; other clients may not"
    found = arguments_problem(arguments) if isinstance(arguments, str) else ("bad_arguments", None)
    if found is None:
        return None
    how = {"double_encoded": "are encoded twice or more often", "trailing_tag": "are followed by a tag"}
    return "fail", how.get(found[0], "are not a JSON object"), cause_named(found[0]).advice


def names_are_kept(answers: Answers) -> Diagnosis:
    """Check that calls use the names of offered functions unchanged, and that names with dots are accepted."""
    for answer in answers.with_calls:
        offered = [str(function.get("name")) for function in _functions(answer)]
        for call in answer.calls:
            if call.name in offered:
                continue
            called = plain_name(call.name)
            meant = next((name for name in offered if called.endswith(plain_name(name))), None)
            evidence = f"{meant or ' and '.join(offered[:3])} was offered, but {clean(call.name, 60)} was called"
            if meant is not None and call.name == tool_name(meant):
                advice = "this API allows no dots in names; with names=auto, the call counts for the dotted function"
                return Diagnosis("warn", evidence, advice)
            return Diagnosis("fail", evidence, "use the tool parser of the model's family: it removes prefixes")
    dotted = answers["dotted"]
    if dotted.error:
        advice = "rename functions with dots in your data; BFCL's functions are sent with underscores"
        return Diagnosis("warn", f"a function name with a dot is refused: {dotted.refusal}", advice)
    dots = "also with a dot" if dotted.calls else "the function with a dot was not called"
    return Diagnosis("pass", f"functions are called by their offered names; {dots}")


def _functions(answer: DoctorAnswer) -> list[Mapping[str, JSON]]:
    """Return the functions that the question offered."""
    functions = (tool.get("function") for tool in answer.request.tools or ())
    return [function for function in functions if isinstance(function, dict)]


_MODEL_OR_PARSER = "if the raw text is right, the tool parser is wrong, else the chat template or the model"


def calls_as(question: str) -> Callable[[Answers], Diagnosis]:
    """Return a check that the answer to a question has the right call."""
    name, expected = RIGHT[question].function, RIGHT[question].arguments

    def check(answers: Answers) -> Diagnosis:
        """Check that the right function was called with the right arguments (others may be added)."""
        answer = answers[question]
        arguments = answer.call(name)
        if arguments is None:
            return Diagnosis("fail", f"{name} was not called; the answer: {answer.shown()}", _MODEL_OR_PARSER)
        wrong = [key for key, value in expected.items() if not _same(arguments.get(key), value)]
        if wrong:
            pairs = ", ".join(
                f"{key} is {clean(dumps(arguments.get(key)).decode(), 80)}, not {dumps(expected[key]).decode()}"
                for key in wrong
            )
            return Diagnosis("fail", pairs, _MODEL_OR_PARSER)
        return Diagnosis("pass", answer.shown())

    return check


def _same(value: JSON, expected: JSON) -> bool:
    """Return whether two values are equal in JSON: 20.0 equals 20, but 1 does not equal true."""
    return value == expected and isinstance(value, bool) == isinstance(expected, bool)


def enum_is_obeyed(answers: Answers) -> Diagnosis:
    """Check that an argument with an enum has the value that was asked for; a warning if it is missing."""
    arguments = answers["call"].call("get_weather")
    if arguments is None:
        return Diagnosis("fail", f"get_weather was not called; the answer: {answers['call'].shown()}", _MODEL_OR_PARSER)
    unit = arguments.get("unit")
    if unit == "celsius":
        return Diagnosis("pass", 'unit is "celsius", one of the two allowed values')
    shown = clean(dumps(unit).decode(), 60)
    status: Status = "warn" if unit is None else "fail"
    return Diagnosis(status, f'unit is {shown}; allowed are "celsius" and "fahrenheit"', _MODEL_OR_PARSER)


def calls_in_parallel(answers: Answers) -> Diagnosis:
    """Check that a question about two cities was answered with a call for each."""
    answer = answers["parallel"]
    cities = {str(call.arguments.get("city")).lower() for call in answer.calls}
    if all(any(expected in city for city in cities) for expected in ("lisbon", "oslo")):
        return Diagnosis("pass", answer.shown())
    evidence = f"the question needs two calls; the answer has {len(answer.calls)}: {answer.shown()}"
    return Diagnosis("warn", evidence, "set parallel_tool_calls, or check that the parser reads more than one call")


def results_are_understood(answers: Answers) -> Diagnosis:
    """Check that the answer after a tool result repeats the result and does not call again."""
    answer = answers["result"]
    if RIGHT["result"].text in answer.text:
        return Diagnosis("pass", answer.shown())
    if answer.calls:
        advice = "the chat template leaves out messages with the role tool: the model does not see results"
        return Diagnosis("fail", f"the model calls again instead of using the result: {answer.shown()}", advice)
    return Diagnosis("fail", f"the result ({RIGHT['result'].text}) is not in the answer: {answer.shown()}")


def no_needless_call(answers: Answers) -> Diagnosis:
    """Check that a greeting was answered without a call."""
    answer = answers["greeting"]
    if answer.calls:
        advice = 'check that tool_choice is not "required": rows that expect no call could never pass'
        return Diagnosis("fail", f"a greeting was answered with a call: {answer.shown()}", advice)
    return Diagnosis("pass", answer.shown())
