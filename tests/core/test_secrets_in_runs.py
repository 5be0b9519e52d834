"""Values from the environment in whole runs: in no file, however a server repeats them; and the run says so."""

import base64
import html
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from tests.cli_parts import inside, write_lines
from tests.fault_server import FaultServer, Request, Step, answer, failing
from tests.judge_parts import chat, judgement
from tests.pipeline_parts import fail, only_run, questions, rows_of, run
from tests.tables import cases

from tunecheck import EvaluationResult, Evaluator, PromptyEvaluator, Run, RunError, write_report
from tunecheck.endpoints import ChatRequest, Endpoint, Price, Prices, Redactor, Secret, load_endpoint
from tunecheck.runs import kept_settings

SECRET = "Qw3rty/9+zü-Secret"  # with what URL, JSON and HTML escape
Plan = Callable[[Request, int], Step]

KEY = "sk-9a8B7c6D/5e4f3G"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TC_SECRET", SECRET)
    monkeypatch.setenv("TC_KEY", KEY)
    monkeypatch.setenv("TC_SHORT", "blue")


def everything(run: Run) -> str:
    """All that the run left in its folder, the report too."""
    write_report(run, run.folder / "report.html")
    files = [path for path in run.folder.rglob("*") if path.is_file()]
    return "\n".join(path.read_bytes().decode("utf-8", "replace") for path in files)


def asked(count: int = 3) -> list[dict[str, Any]]:
    return [{**row, "query": row["question"]} for row in questions(count)]


PROMPT = """\
---
model:
  parameters: {temperature: 0, user: "${env:TC_SECRET}", metadata: {team: ["${env:TC_KEY}"]}}
inputs: {response: {type: string}}
outputs: {reason: {type: string}, score: {type: integer, minimum: 1, maximum: 5}}
judge: {threshold: 3}
---
user:
{{response}}
"""


def judge(folder: Path, server: FaultServer, prompt: str = PROMPT, **definition: Any) -> PromptyEvaluator:
    file = folder / "polite.prompty"
    file.write_text(prompt, encoding="utf-8")
    base = {"kind": "openai", "url": server.url, "model": "m", "retries": 0, "timeout_s": 20}
    return PromptyEvaluator(file, load_endpoint({**base, **definition}, name="judge"))


def said(row: Any) -> Any:
    return row["outputs.polite.polite_reason"]


def test_a_prompts_parameters_are_sent_and_stand_in_no_file(tmp_path: Path) -> None:
    def repeat(request: Request, _: int) -> Step:
        sent = json.loads(request.body)
        return chat(judgement(4, f"asked by {sent['user']} of {sent['metadata']['team'][0]}"))

    with FaultServer(repeat) as server:
        result = run(tmp_path, [{"response": "hi"}], evaluators={"polite": judge(tmp_path, server)})
    assert json.loads(server.requests[0].body)["user"] == SECRET
    assert said(rows_of(result)[0]) == "asked by *** of ***"
    left = everything(only_run(tmp_path))
    assert SECRET not in left
    assert KEY not in left
    assert '"user": "${env:TC_SECRET}"' in (only_run(tmp_path).folder / "run.json").read_text()


def test_nor_does_what_an_input_is_by_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TC_DEFAULT", "by-default-7f3a")
    prompt = PROMPT.replace("inputs: {", "inputs: {rules: {default: {by: ['${env:TC_DEFAULT}']}}, ")
    with FaultServer(lambda request, _: chat(judgement(4, request.body.decode()))) as server:
        polite = judge(tmp_path, server, prompt.replace("{{response}}", "{{response}} {{rules.by[0]}}"))
        run(tmp_path, [{"response": "hi"}], evaluators={"polite": polite})
    assert "hi by-default-7f3a" in json.loads(server.requests[0].body)["messages"][0]["content"]
    assert "by-default-7f3a" not in everything(only_run(tmp_path))


def test_nor_in_the_error_of_a_judge_that_is_refused_them(tmp_path: Path) -> None:
    def refuse(request: Request, _: int) -> Step:
        return failing(400, f"unknown user {json.loads(request.body)['user']}")

    with FaultServer(refuse) as server:
        evaluators = {"polite": judge(tmp_path, server), "n": lambda response: 1}
        result = run(tmp_path, [{"response": "hi"}], evaluators=evaluators)
    assert "unknown user ***" in rows_of(result)[0]["error.polite"]["message"]
    assert SECRET not in everything(only_run(tmp_path))


def test_a_python_judge_that_repeats_them_is_masked_too(tmp_path: Path) -> None:
    (tmp_path / "said.py").write_text(
        "import json\ndef answer(parameters):\n    return json.dumps({'score': 4, 'reason': parameters['user']})\n"
    )
    (tmp_path / "polite.prompty").write_text(PROMPT, encoding="utf-8")
    endpoint = load_endpoint({"kind": "python", "function": f"{tmp_path}/said.py:answer"})
    evaluator = PromptyEvaluator(tmp_path / "polite.prompty", endpoint)
    result = run(tmp_path, [{"response": "hi"}], evaluators={"polite": evaluator})
    assert said(rows_of(result)[0]) == "***"
    assert SECRET not in everything(only_run(tmp_path))


def test_another_value_of_a_prompts_parameter_is_judged_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with FaultServer(lambda *_: chat(judgement(4))) as server:
        for value in (SECRET, SECRET, "another-value-of-it"):
            monkeypatch.setenv("TC_SECRET", value)
            run(tmp_path, [{"response": "hi"}], evaluators={"polite": judge(tmp_path, server)})
    manifests = [Run(folder).manifest() for folder in (tmp_path / "runs").iterdir()]
    assert len({manifest.evaluators["polite"].fingerprint for manifest in manifests}) == 2


@cases("others")
def test_what_a_prompt_says_of_its_model_is_not_kept_as_its_value(tmp_path: Path, configuration: str) -> None:
    with FaultServer(lambda *_: chat(judgement(4))) as server:
        base = f"http://127.0.0.1:{server.port}"
        prompt = PROMPT.replace("parameters:", f"configuration: {configuration.replace('URL', base)}\n  parameters:")
        (tmp_path / "polite.prompty").write_text(prompt, encoding="utf-8")
        evaluators = {"polite": PromptyEvaluator(tmp_path / "polite.prompty")}
        result = run(tmp_path, [{"response": "hi"}], evaluators=evaluators)
    assert rows_of(result)[0]["outputs.polite.polite_score"] == 4
    left = everything(only_run(tmp_path))
    for value in (SECRET, KEY):
        assert value not in left
        assert quote(value, safe="") not in left


def masking(*secrets: str) -> Redactor:
    redactor = Redactor()
    for secret in secrets:
        redactor.add(Secret(secret))
    return redactor


def ways(text: str) -> dict[str, str]:
    return {
        "as it is": text,
        "in capitals": text.upper(),
        "in JSON": json.dumps(text),
        "in JSON with every letter escaped": "".join(f"\\u{ord(letter):04X}" for letter in text),
        "in JSON with slashes escaped": json.dumps(text).replace("/", "\\/"),
        "in JSON in JSON": json.dumps(json.dumps({"key": text}).replace("/", "\\/")),
        "in a URL": quote(text, safe=""),
        "in a URL in a URL": quote(quote(text, safe=""), safe=""),
        "in a URL in JSON": json.dumps(f"https://a.b/?q={quote(text)}"),
        "in JSON with every letter escaped, in JSON": json.dumps("".join(f"\\u{ord(letter):04x}" for letter in text)),
        "in a URL with every letter escaped": "".join(f"%{byte:02x}" for byte in text.encode()),
        "in a URL with every letter escaped twice": "".join(f"%25{byte:02X}" for byte in text.encode()),
        "in a URL in JSON in HTML": html.escape(json.dumps("".join(f"%{byte:02x}" for byte in text.encode()))),
        "with hexadecimal escapes": "".join(f"\\x{ord(letter):02x}" for letter in text),
        "with zero-width spaces between the letters": "\u200b".join(text),
        "with soft hyphens between the letters": "\xad".join(text),
        "with escaped zero-width joiners between the letters": json.dumps("\u200d".join(text)),
        "with zero-width entities between the letters": "&#8203;".join(text),
        "in HTML in HTML": "".join(f"&amp;#x{ord(letter):x};" for letter in text),
        "with named entities": html.escape(text).replace("+", "&plus;").replace("-", "&#0045;").replace("/", "&sol;"),
        "in HTML": "".join(f"&#x{ord(letter):x};" for letter in text),
        "in decimal HTML": "".join(f"&#{ord(letter)};" for letter in text),
        "in base64": base64.b64encode(text.encode()).decode(),
        "in base64 after one letter": base64.b64encode(f"x{text}y".encode()).decode(),
        "in base64 after two letters": base64.b64encode(f"xy{text}z".encode()).decode(),
        "in base64 for URLs": base64.urlsafe_b64encode(text.encode()).decode(),
    }


@pytest.mark.parametrize("way", ways(SECRET))
@pytest.mark.parametrize("secret", [SECRET, "abcdefgh", "a&b<c>'d\"e\\f"])
def test_a_secret_is_masked_in_every_way_of_writing_it(secret: str, way: str) -> None:
    redactor = masking(secret)
    written = ways(secret)[way]
    masked = redactor.answer(f"before {written} after")
    assert isinstance(masked, str)
    assert "***" in masked
    for each in ways(secret).values():
        assert each.strip('="') not in masked
    assert masked.startswith("before ")
    assert masked.endswith(" after")


def cut(text: str) -> dict[str, str]:
    return {
        "without its last letter": text[:-1],
        "without its first letter": text[1:],
        "twelve letters of it": text[3:15],
        "without its last letter, in a URL": quote(text, safe="")[:-1],
        "without its last letter, in base64": base64.b64encode(text[:-1].encode()).decode(),
        "without its last letter, in base64 after another one": base64.b64encode(f"x{text[:-1]}".encode()).decode(),
    }


@pytest.mark.parametrize("way", cut(KEY))
@pytest.mark.parametrize("method", ["answer", "text", "line"])
def test_a_part_of_a_secret_is_masked(way: str, method: str) -> None:
    redactor = masking(KEY)
    part = cut(KEY)[way].rstrip("=")
    masked = getattr(redactor, method)(f"bad key {part} given")
    assert "***" in masked
    assert not any(part[at : at + 12] in masked for at in range(len(part) - 11))


@pytest.mark.parametrize("kept", ["", "/", "!*'()"])
def test_a_part_of_a_secret_in_an_address_is_masked_whichever_characters_are_escaped(kept: str) -> None:
    redactor = masking("Zx9!kQ/7+pL&2vB=mN-4tR")
    part = quote("Zx9!kQ/7+pL&2", safe=kept)
    assert redactor.line(f"to /a/{part}") == "to /a/***"


@pytest.mark.parametrize("secret", ["a" * 40, "ab" * 20, "x" * 11 + "y" * 11])
def test_a_long_answer_of_a_secrets_letters_is_masked_in_time(secret: str) -> None:
    redactor = masking(secret)
    assert "***" in str(redactor.answer(secret * 1_000))
    assert redactor.answer((secret[:11] + "-") * 10_000) == (secret[:11] + "-") * 10_000


def test_the_exception_of_an_evaluator_is_masked(tmp_path: Path) -> None:
    evaluators = {"e": lambda response: fail(ValueError(f"Incorrect API key provided: {KEY[:-1]}"))}
    with FaultServer(lambda *_: answer({"result": "hi"})) as server:
        result = run(tmp_path, asked(1), target=sending(server, X_Team="${env:TC_KEY}"), evaluators=evaluators)
    assert KEY[:-1] not in everything(only_run(tmp_path))
    assert rows_of(result)[0]["error.e"]["message"] == "Incorrect API key provided: ***"


async def test_a_secret_is_masked_as_a_number_of_structured_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TC_KEY", "4929123456781234")
    call = {"type": "function", "function": {"name": "pay", "arguments": {"card": 4929123456781234, "amount": 20}}}
    reply = {"choices": [{"message": {"role": "assistant", "tool_calls": [call]}}]}
    with FaultServer(lambda *_: answer(reply)) as server:
        endpoint = load_endpoint({"kind": "azure_ml", "url": server.url, "auth": {"value": "${env:TC_KEY}"}})
        done = await endpoint.complete(ChatRequest([{"role": "user", "content": "pay"}]))
        await endpoint.close()
    assert done.masked
    assert done.tool_calls[0]["function"] == {"name": "pay", "arguments": {"card": "***", "amount": 20}}


@cases("others")
def test_a_secret_is_masked(secrets: list[str], answer: Any, masked: object) -> None:
    assert masking(*secrets).answer(answer) == masked


def test_secrets_that_overlap_leave_nothing_of_either() -> None:
    assert masking("abcdefgh-1234", "1234-stuvwxyz").text("abcdefgh-1234-stuvwxyz") == "***"


def test_a_secret_is_masked_at_every_place_of_a_long_answer() -> None:
    redactor = masking("abcdefgh-1234")
    for at in range(262_080, 262_160, 3):
        assert redactor.answer(f"{'x' * at}\\u0061bcdefgh%2d1234{'y' * 100_000}") == f"{'x' * at}***{'y' * 100_000}"


def test_a_long_answer_full_of_escapes_is_masked_in_time() -> None:
    redactor = masking("abcdefgh")
    escapes = "\\u0061%41&amp;" * 100_000
    assert redactor.answer(f"{escapes}\\u0061bcdefgh") == f"{escapes}***"
    for mark in ("%", "\\", "&", "%25"):
        assert redactor.answer(mark * 250_000) == mark * 250_000


def sending(server: FaultServer, **headers: str) -> Endpoint:
    """An endpoint that sends these headers, one call at a time."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    definition = {"kind": "azure_ml", "url": server.url, "response": "result", "headers": named}
    return load_endpoint(definition | {"limits": {"concurrency": 1}})


def test_a_secret_that_arrives_in_pieces_is_masked(tmp_path: Path) -> None:
    body = json.dumps({"result": f"you said {KEY}"}).encode()
    step = Step(200, {"Content-Type": "application/json"}, body, then="trickle")  # byte by byte
    with FaultServer(lambda *_: step) as server:
        endpoint = sending(server, X_Team="${env:TC_KEY}")
        result = run(tmp_path, asked(1), target=endpoint, evaluators={"n": lambda response: 1})
    assert rows_of(result)[0]["outputs.response"] == "you said ***"


@pytest.fixture
def repeating() -> Plan:
    def plan(request: Request, _: int) -> Step:
        team, slot = request.headers.get("x-team", ""), request.headers.get("x-slot", "")
        return answer({"result": f"{team.swapcase()} runs {slot} and {quote(team, safe='')}"})

    return plan


def test_a_header_that_the_server_repeats_is_masked_before_it_is_kept(tmp_path: Path, repeating: Plan) -> None:
    with FaultServer(repeating) as server:
        endpoint = sending(server, X_Team="${env:TC_KEY}", X_Slot="${env:TC_SHORT}")
        seen: list[str] = []

        def judged(response: str) -> dict[str, Any]:
            seen.append(response)
            return {"length": len(response)}

        result = run(tmp_path, asked(3), target=endpoint, evaluators={"judged": judged})
    assert seen == ["*** runs blue and ***"] * 3
    assert KEY not in everything(only_run(tmp_path))
    note = "3 answers contained an environment variable's value, masked as ***"
    assert any(note in each for each in result.notes)
    assert note in (only_run(tmp_path).folder / "metrics.json").read_text()


def test_a_value_marked_as_plain_is_not_masked(tmp_path: Path, repeating: Plan) -> None:
    with FaultServer(repeating) as server:
        endpoint = sending(server, X_Team="${env:TC_KEY:plain}", X_Auth_Region="${env:TC_SHORT:plain}")
        result = run(tmp_path, asked(1), target=endpoint, evaluators={"n": lambda response: 1})
    assert server.requests[0].headers["x-auth-region"] == "blue"
    assert rows_of(result)[0]["outputs.response"].startswith(KEY.swapcase())
    assert not any("masked" in note for note in result.notes)


def test_inputs_and_ground_truth_are_never_masked(tmp_path: Path, repeating: Plan) -> None:
    with FaultServer(repeating) as server:
        endpoint = load_endpoint({"kind": "azure_ml", "url": server.url, "auth": {"value": "${env:TC_KEY}"}})
        rows = [{"query": f"what is {KEY}?", "ground_truth": KEY}]
        evaluators = {"same": lambda ground_truth: {"same": ground_truth == KEY}}
        result = run(tmp_path, rows, target=endpoint, evaluators=evaluators)
    row = rows_of(result)[0]
    assert (row["inputs.query"], row["inputs.ground_truth"]) == (f"what is {KEY}?", KEY)
    assert row["outputs.same.same"] is True


def test_a_run_that_goes_on_judges_the_same(tmp_path: Path, repeating: Plan) -> None:
    stop = True

    def plan(request: Request, attempt: int) -> Step:
        if stop and len(server.requests) > 4:
            return failing(401)
        return repeating(request, attempt)

    with FaultServer(plan) as server:
        arguments = {"evaluators": {"n": lambda response: {"length": len(response)}}, "concurrency": 1}

        def had(**more: Any) -> EvaluationResult:
            return run(tmp_path, asked(20), target=sending(server, X_Team="${env:TC_KEY}"), **arguments, **more)

        with pytest.raises(RunError):
            had()
        stop = False
        broken = only_run(tmp_path)
        again, whole = had(resume=broken.id), had()
    assert again.notes == whole.notes
    assert any("20 answers contained" in note for note in again.notes)
    columns = ("outputs.response", "outputs.n.length")
    first, second = ([[row[name] for name in columns] for row in rows_of(result)] for result in (again, whole))
    assert first == second


def test_a_model_whose_name_comes_from_the_environment_has_its_price() -> None:
    named = {"openai": "model", "azure_openai": "deployment"}
    for kind in ({"kind": kind, key: "${env:TC_SHORT}"} for kind, key in named.items()):
        endpoint = load_endpoint({"url": "http://127.0.0.1:1", **kind})
        Prices({"blue": Price(1.0, 2.0)}).give(endpoint)
        assert endpoint.price == Price(1.0, 2.0)
        assert "blue" not in json.dumps(endpoint.settings())


def test_a_plain_header_with_a_secrets_name_survives_being_kept_and_read_again() -> None:
    headers = {"X-Auth-Region": "${env:TC_SHORT:plain}"}
    definition = {"kind": "openai", "url": "http://127.0.0.1:1", "model": "m", "headers": headers}
    settings = kept_settings(load_endpoint(definition).settings())
    assert load_endpoint(settings).settings() == load_endpoint(definition).settings()


class Listener(Evaluator):
    """An evaluator of a user's own that takes a key."""

    def __init__(self, api_key: str, url: str, **settings: Any) -> None:
        super().__init__(api_key=api_key, url=url, **settings)

    def __call__(self, *, response: str) -> dict[str, Any]:
        return {"n": 1}


def test_secrets_that_stand_in_settings_are_masked_in_the_manifest(tmp_path: Path) -> None:
    own = Listener(
        "literal-key-1",
        "https://ann:literal-key-2@a.b/c?sv=1&sig=literal-key-3&x=1",
        headers={"X-Api-Key": "literal-key-4", "X-Slot": "blue"},
    )
    run(tmp_path, [{"response": "hi"}], evaluators={"own": own}, command={"set": {"own.api_key": "literal-key-5"}})
    text = (only_run(tmp_path).folder / "run.json").read_text()
    assert "literal-key" not in text
    for kept in ("https://***@a.b/c?sv=1&sig=***&x=1", '"X-Slot": "blue"'):
        assert kept in text


SECRET_VALUES = [
    "DefaultEndpointsProtocol=https;AccountName=a;AccountKey=bGl0ZXJhbC1rZXk=;EndpointSuffix=core.windows.net",
    "Endpoint=sb://a.b/;SharedAccessKeyName=x;SharedAccessKey=bGl0ZXJhbC1rZXk=",
    "https://f.azurewebsites.net/api/x?code=literal-key-6",
    "https://a.b/c?sv=1&sig=literal-key-7",
    "https://ann:literal-key-8@a.b/c",
    "https://hooks.slack.com/services/T000/B000/literalkey",
    "ghp_0123456789literalkey0123456789",
    "sk-proj-0123456789literal-key",
]


@pytest.mark.parametrize("value", SECRET_VALUES)
def test_a_value_that_looks_like_a_secret_is_masked_in_the_manifest(tmp_path: Path, value: str) -> None:
    run(tmp_path, [{"response": "hi"}], evaluators={"own": Listener(value, "", headers={})})
    text = (only_run(tmp_path).folder / "run.json").read_text()
    assert "literal" not in text and "bGl0ZXJhbC1rZXk" not in text and "***" in text


@pytest.mark.parametrize("value", SECRET_VALUES)
def test_a_typed_setting_that_looks_like_a_secret_is_refused_unseen(tmp_path: Path, value: str) -> None:
    write_lines(tmp_path / "data.jsonl", [{"id": "1", "response": "hi"}])
    said = inside(
        tmp_path, "evaluate", "--dataset", "data.jsonl", "--response-column", "response",
        "--evaluators", "rouge", "--set", f"rouge.rouge_type={value}",
    )  # fmt: skip
    assert said.code == 2
    assert said.err == (
        "error: --set 'rouge.rouge_type' may contain a secret: put it in an environment variable "
        "and write ${env:VARIABLE} instead\n"
    )
    assert not (tmp_path / "eval_results").exists()


CALLER = """
class Caller:
    def __init__(self, token: str, headers: dict | None = None, threshold: float = 0.5):
        if token == "refused":
            raise ValueError(f"{token} and {headers}")
        self.sent = f"Bearer {token}"
        self.headers = headers or {}

    def __call__(self, *, response: str):
        if response == "bad":
            raise RuntimeError(f"401: {self.sent} with {self.headers}")
        return {"caller": len(self.sent), "caller_result": "pass"}
"""
FROM_ENVIRONMENT = ("--set", "caller.token=${env:TC_SECRET}", "--set", 'caller.headers={"x": "a ${env:TC_KEY}"}')


def call(folder: Path, *more: str) -> Any:
    """Evaluate two rows with the user's evaluator; the second row makes it fail."""
    (folder / "evaluators").mkdir(exist_ok=True)
    (folder / "evaluators" / "caller.py").write_text(CALLER)
    write_lines(folder / "data.jsonl", [{"id": "1", "response": "hi"}, {"id": "2", "response": "bad"}])
    given = ("evaluate", "--dataset", "data.jsonl", "--response-column", "response", "--evaluators", "caller")
    return inside(folder, *given, *more)


def runs_of(folder: Path) -> list[Run]:
    return [Run(each) for each in sorted((folder / "eval_results").iterdir()) if (each / "run.json").exists()]


def test_a_setting_from_the_environment_reaches_the_evaluator_and_no_file(tmp_path: Path) -> None:
    said = call(tmp_path, *FROM_ENVIRONMENT)
    (made,) = runs_of(tmp_path)
    first, second = made.rows()
    assert first["outputs.caller.caller"] == len(f"Bearer {SECRET}")
    assert "401: Bearer ***" in str(second["error.caller"])
    text = everything(made) + said.out + said.err
    for secret in (SECRET, KEY):
        assert secret not in text
        assert json.dumps(secret)[1:-1] not in text
    manifest = json.loads((made.folder / "run.json").read_text())
    assert "${env:TC_SECRET}" in json.dumps(manifest["command"])
    assert "Bearer ${env:TC_SECRET}" in json.dumps(manifest["evaluators"]["caller"]["arguments"])


def test_another_value_in_the_environment_is_another_evaluator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known: list[str] = []
    for value in (SECRET, SECRET, SECRET + "2"):
        monkeypatch.setenv("TC_SECRET", value)
        folder = tmp_path / str(len(known))
        folder.mkdir()
        call(folder, *FROM_ENVIRONMENT)
        manifest = json.loads((runs_of(folder)[0].folder / "run.json").read_text())
        known.append(manifest["evaluators"]["caller"]["fingerprint"])
    assert known[0] == known[1] != known[2]


@cases("others")
def test_a_setting_that_cannot_be_used_is_one_line_without_the_value(tmp_path: Path, setting: str, error: str) -> None:
    given = () if "token" in setting else FROM_ENVIRONMENT[:2]
    said = call(tmp_path, *given, "--set", setting)
    assert said.code == 2
    assert error in said.err
    assert len([line for line in said.err.splitlines() if not line.startswith("note: ")]) == 1
    assert not any(value in said.err for value in (SECRET, "written-out-1"))


def test_an_evaluator_that_refuses_settings_shows_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TC_PLAIN", "refused")
    said = call(tmp_path, "--set", "caller.token=${env:TC_PLAIN:plain}", *FROM_ENVIRONMENT[2:])
    assert (said.code, "refused and" in said.err, KEY in said.err) == (2, True, False)


def test_settings_of_another_person_do_not_read_the_environment(tmp_path: Path) -> None:
    theirs, mine = tmp_path / "theirs", tmp_path / "mine"
    theirs.mkdir()
    mine.mkdir()
    (theirs / "options.yaml").write_text('set: {caller.token: "${env:TC_SECRET}"}\n')
    said = call(mine, "--config", str(theirs / "options.yaml"))
    assert said.code == 2
    assert "needs consent to set --set" in said.err
