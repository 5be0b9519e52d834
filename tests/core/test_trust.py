"""Only names that the user typed may act: each test is an attack, with real files and a server without calls."""

import json
import os
import shlex
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.cli_parts import ROOT, SIDECAR, Said, environment, inside, process, replay, rows, workspace, write_lines
from tests.fault_server import FaultServer, Request, Step, answer, failing
from tests.pipeline_parts import rewrite
from tests.platforms import posix_only
from tests.tables import cases

from tunecheck.plugins import load_file
from tunecheck.prompts import load_prompt

MARK = "import pathlib\npathlib.Path({mark!r}).touch()\n"
SIMULATOR = """
from tunecheck.simulators import Simulator, tool

class Wiper(Simulator):
    @tool
    def wipe(self) -> str:
        "Wipe."
        return "wiped"
"""
TURNS: Mapping[str, Any] = {
    "turns": [[{"role": "user", "content": "wipe it"}]],
    "involved_classes": ["Wiper"],
    "ground_truth": [["wipe()"]],
}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A workspace with one run of the user's own, so that the note on first use is not printed."""
    return workspace(tmp_path / "home")


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """A folder from another person: a data set, and an endpoint definition that runs code."""
    folder = tmp_path / "elsewhere"
    write_lines(folder / "data.jsonl", rows(2))
    (folder / "data.yaml").write_text(SIDECAR, "utf-8")
    runs_code(folder / "evil.yaml", tmp_path / "ran")
    return folder


@pytest.fixture
def ran(tmp_path: Path) -> Path:
    """The file that code leaves behind which must not run."""
    return tmp_path / "ran"


@pytest.fixture
def server() -> Iterator[FaultServer]:
    with FaultServer(lambda seen, attempt: answer({"result": "hello"})) as running:
        yield running


def runs_code(definition: Path, mark: Path) -> Path:
    """An endpoint definition and the code that it runs."""
    code = definition.with_suffix(".py")
    code.write_text(MARK.format(mark=str(mark)) + "def f(messages):\n    return 'hello'\n", "utf-8")
    definition.write_text(f"kind: python\nfunction: {code.name}:f\n", "utf-8")
    return definition


def asks(definition: Path, server: FaultServer, more: str = "") -> Path:
    definition.parent.mkdir(exist_ok=True)
    definition.write_text(f"kind: azure_ml\nurl: {server.url}/score\nresponse: result\nretries: 0\n{more}", "utf-8")
    return definition


def evaluator(path: Path, mark: Path) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(MARK.format(mark=str(mark)) + f"def {path.stem}(response):\n    return {{'n': 1}}\n", "utf-8")
    return path


def evaluated(folder: Path, *arguments: str, **more: str) -> Said:
    return inside(folder, "evaluate", "--quiet", *arguments, **more)


def afresh(folder: Path, *arguments: str, **more: str) -> Said:
    """The same in a process of its own, which has not loaded any file before."""
    return process(folder, "evaluate", "--quiet", *arguments, **more)


def begun(folder: Path, *arguments: str) -> Path:
    """A finished run of the user's own."""
    done = evaluated(folder, "--dataset", "small.jsonl", *arguments)
    assert done.code == 0, done
    return folder / done.out.strip()


def by_somebody_else(run: Path, status: str = "interrupted", **recorded: object) -> Path:
    """The run as an attacker would hand it over, with actions for the user's machine."""
    command = json.loads((run / "run.json").read_text("utf-8"))["command"] | recorded
    rewrite(run / "run.json", command=command, signature="0" * 64, status=status)
    return run


def as_typed(error: str) -> list[str]:
    """The command that a refusal ends with."""
    words = shlex.split(error.strip().splitlines()[-1].partition("or accept all with: ")[2])
    assert words[:3] == ["python", "-m", "tunecheck"], error
    return words[3:]


@cases("others")
def test_what_a_file_names_runs_no_code_that_it_may_not_name(
    home: Path, elsewhere: Path, ran: Path, files: dict[str, str], words: str, code: int, err: list[str]
) -> None:
    """`evil.yaml` lies elsewhere, in two folders of the workspace, and behind a link in the workspace itself."""
    for folder in ("datasets", "endpoints"):
        runs_code(home / folder / "evil.yaml", ran)
    (home / "evil.yaml").symlink_to(elsewhere / "evil.yaml")
    for name, text in files.items():
        filled = text.replace("{elsewhere}", str(elsewhere)).replace("SIDECAR", SIDECAR)
        (home / name.format(elsewhere=elsewhere)).write_text(filled, "utf-8")
    done = evaluated(home, *words.format(elsewhere=elsewhere).split())
    assert (done.code, ran.exists()) == (code, False), done
    assert [part for each in err if (part := each.format(elsewhere=elsewhere)) not in done.err] == []
    assert code or "--" not in done.err


def test_a_sidecar_of_the_workspace_names_no_endpoint_that_runs_code(home: Path, ran: Path) -> None:
    runs_code(home / "endpoints" / "evil.yaml", ran)
    (home / "datasets" / "small.yaml").write_text(SIDECAR + "target: evil\n", "utf-8")
    refused = evaluated(home, "--dataset", "small.jsonl")
    assert (refused.code, ran.exists()) == (2, False)
    assert evaluated(home, "--dataset", "small.jsonl", "--endpoint", "evil").code == 0
    assert ran.exists()


@pytest.mark.parametrize(
    "more",
    ['auth: {type: key, value: "${env:AWS_SECRET_ACCESS_KEY}"}\n', 'headers: {x-a: "${env:AWS_SECRET_ACCESS_KEY}"}\n'],
)
def test_a_sidecar_elsewhere_sends_no_secret(home: Path, elsewhere: Path, server: FaultServer, more: str) -> None:
    asks(elsewhere / "evil.yaml", server, more)
    (elsewhere / "data.yaml").write_text(SIDECAR + f"target: {elsewhere}/evil.yaml\n", "utf-8")
    done = evaluated(home, "--dataset", str(elsewhere / "data.jsonl"), AWS_SECRET_ACCESS_KEY="s3cret-s3cret")
    assert (done.code, server.requests) == (2, [])


def test_a_sidecar_of_the_workspace_names_its_endpoints(home: Path, server: FaultServer) -> None:
    asks(home / "endpoints" / "mine.yaml", server)
    (home / "datasets" / "small.yaml").write_text(SIDECAR + "target: mine\n", "utf-8")
    assert evaluated(home, "--dataset", "small.jsonl", "--dry-run").code == 0
    assert server.requests == []
    assert evaluated(home, "--dataset", "small.jsonl").code == 0
    assert len(server.requests) == 6


def test_evaluate_in_python_refuses_a_sidecars_target_too(home: Path, elsewhere: Path, ran: Path) -> None:
    (elsewhere / "data.yaml").write_text(SIDECAR + f"target: {elsewhere}/evil.yaml\n", "utf-8")
    script = f"import tunecheck; tunecheck.evaluate(data={str(elsewhere / 'data.jsonl')!r})"
    done = subprocess.run([sys.executable, "-c", script], cwd=home, env=environment(), capture_output=True, text=True)
    assert "UntrustedError" in done.stderr
    assert not ran.exists()


def test_a_sidecar_elsewhere_names_installed_evaluators_only(home: Path, elsewhere: Path, ran: Path) -> None:
    path = evaluator(home / "evaluators" / "wipe.py", ran)
    (elsewhere / "data.yaml").write_text(SIDECAR.replace("match]", "match, wipe]"), "utf-8")
    for dry in ((), ("--dry-run",)):
        done = evaluated(home, "--dataset", str(elsewhere / "data.jsonl"), *dry)
        assert done.code == 2
        assert "load the evaluator 'wipe' (evaluators/wipe.py)" in done.err
        assert f"--trust {elsewhere / 'data.yaml'}" in done.err
        assert not ran.exists()
    assert evaluated(home, "--dataset", str(elsewhere / "data.jsonl"), "--evaluators", path.stem).code == 0


def test_a_link_in_the_workspace_does_not_make_data_its_own(home: Path, elsewhere: Path, ran: Path) -> None:
    evaluator(home / "evaluators" / "wipe.py", ran)
    (elsewhere / "data.yaml").write_text(SIDECAR.replace("match]", "match, wipe]"), "utf-8")
    for name in ("data.jsonl", "data.yaml"):
        (home / "datasets" / name).symlink_to(elsewhere / name)
    assert evaluated(home, "--dataset", "data.jsonl").code == 2
    assert not ran.exists()


def test_a_sidecar_of_the_workspace_names_its_evaluators(home: Path, ran: Path) -> None:
    evaluator(home / "evaluators" / "mine.py", ran)
    (home / "datasets" / "small.yaml").write_text(SIDECAR.replace("match]", "match, mine]"), "utf-8")
    assert evaluated(home, "--dataset", "small.jsonl").code == 0
    assert ran.exists()


@pytest.mark.parametrize("arguments", [("evaluate", "--dataset"), ("evaluate", "--dry-run", "--dataset"),
                                       ("evaluate", "--response-column", "answer", "--evaluators", "multi_turn_state",
                                        "--mapping", "result=${data.answer}", "--workers", "1", "--dataset"),
                                       ("check",)])  # fmt: skip
def test_rows_elsewhere_name_installed_simulators_only(home: Path, elsewhere: Path, ran: Path, arguments: Any) -> None:
    (home / "simulators").mkdir()
    (home / "simulators" / "Wiper.py").write_text(MARK.format(mark=str(ran)) + SIMULATOR, "utf-8")
    write_lines(elsewhere / "turns.jsonl", [{"id": "a", **TURNS, "answer": [[{"wipe": "{}"}]]}])
    data = elsewhere / "turns.jsonl"
    done = inside(home, *arguments, str(data))
    assert done.code == (3 if arguments[0] == "check" else 2)
    assert f"--trust {data}" in done.out + done.err
    assert not ran.exists()
    assert inside(home, *arguments, str(data), "--trust", str(data)).code == 0
    ran.unlink()
    own = shutil.copy(elsewhere / "turns.jsonl", home / "datasets")
    assert process(home, *arguments, str(own)).code == 0, own
    assert ran.exists()


def test_later_rows_that_name_what_they_may_not_are_counted(home: Path, elsewhere: Path, ran: Path) -> None:
    (home / "simulators").mkdir()
    (home / "simulators" / "Wiper.py").write_text(MARK.format(mark=str(ran)) + SIMULATOR, "utf-8")
    harmless = {"id": "a", **TURNS, "involved_classes": ["MathAPI"], "ground_truth": [["mean(numbers=[1])"]]}
    data = elsewhere / "turns.jsonl"
    rows = [harmless, {"id": "b", **TURNS}, {"id": "c", **TURNS}]
    write_lines(data, [{**row, "answer": [[{"wipe": "{}"}]]} for row in rows])
    judged = ("--response-column", "answer", "--evaluators", "multi_turn_state", "--mapping", "result=${data.answer}")
    done = inside(home, "evaluate", "--dataset", str(data), *judged, "--workers", "0")
    refused = [line for line in (done.out + done.err).splitlines() if "refused on" in line]
    assert len(refused) == 1, done
    assert "refused on 2 rows: " in refused[0]
    assert not ran.exists()


def test_what_is_trusted_for_one_command_may_load_what_it_names(home: Path, elsewhere: Path, ran: Path) -> None:
    (elsewhere / "data.yaml").write_text(SIDECAR + f"target: {elsewhere}/evil.yaml\n", "utf-8")
    data = str(elsewhere / "data.jsonl")
    for path in ("data.yaml", "data.jsonl", "."):
        ran.unlink(missing_ok=True)
        assert afresh(home, "--dataset", data, "--trust", str(elsewhere / path)).code == 0
        assert ran.exists()
    ran.unlink()
    assert afresh(home, "--dataset", data).code == 2
    assert not ran.exists()


def test_a_path_that_cannot_be_trusted_is_missing_or_empty(home: Path, tmp_path: Path) -> None:
    own = {"TUNECHECK_CONFIG_DIR": str(tmp_path / "configuration")}
    (tmp_path / "empty").mkdir()
    missing, empty = (inside(home, "trust", str(tmp_path / name), **own) for name in ("missing", "empty"))
    assert (missing.code, empty.code) == (2, 2)
    assert f"{tmp_path / 'missing'}: there is no such file or folder: correct the path" in missing.err
    assert "because it has no files" in empty.err


def test_what_is_trusted_is_trusted_until_it_changes(home: Path, elsewhere: Path, ran: Path, tmp_path: Path) -> None:
    (elsewhere / "data.yaml").write_text(SIDECAR + f"target: {elsewhere}/evil.yaml\n", "utf-8")
    own = {"TUNECHECK_CONFIG_DIR": str(tmp_path / "configuration")}
    arguments = ("--dataset", str(elsewhere / "data.jsonl"))
    assert inside(home, "trust", str(elsewhere / "evil.yaml"), **own).code == 0
    refused = evaluated(home, *arguments, **own)
    assert (refused.code, ran.exists()) == (2, False)
    assert f"tunecheck trust {elsewhere / 'evil.py'}" in refused.err
    assert inside(home, "trust", str(elsewhere / "evil.py"), **own).code == 0
    assert evaluated(home, *arguments, **own).code == 0
    assert ran.exists()
    ran.unlink()
    with (elsewhere / "evil.py").open("a") as file:
        file.write("# changed\n")
    assert afresh(home, *arguments, **own).code == 2
    assert not ran.exists()


def test_the_first_time_code_of_a_workspace_runs_is_told_of(home: Path, ran: Path) -> None:
    evaluator(home / "evaluators" / "mine.py", ran)
    arguments = ("--dataset", "small.jsonl", "--evaluators", "mine")
    first = evaluated(home, *arguments)
    assert (first.code, first.err.count("evaluators/mine.py")) == (0, 1), first
    assert "evaluators/mine.py" not in evaluated(home, *arguments).err


def test_the_first_time_a_format_of_a_workspace_is_loaded_is_told_of(home: Path, ran: Path) -> None:
    (home / "formats").mkdir()
    source = "from tunecheck.formats import JsonCalls, Profile\nmine = Profile('mine', JsonCalls())\n"
    (home / "formats" / "mine.py").write_text(MARK.format(mark=str(ran)) + source, "utf-8")
    done = evaluated(home, "--dataset", "small.jsonl", "--set", "match.format=mine")
    assert "you have no earlier run in this folder; this run loads the code formats/mine.py" in done.err


def test_where_only_built_in_code_runs_nothing_is_told(home: Path) -> None:
    assert "note" not in evaluated(home, "--dataset", "small.jsonl").err


def recorded_endpoint(home: Path, elsewhere: Path, server: FaultServer) -> dict[str, dict[str, Any]]:
    asks(elsewhere / "asking.yaml", server, 'headers: {x-a: "${env:AWS_SECRET_ACCESS_KEY}"}\n')
    return {
        "code": {"endpoint": str(elsewhere / "evil.yaml")},
        "secret": {"endpoint": str(elsewhere / "asking.yaml")},
        "judge": {"judge": str(elsewhere / "evil.yaml")},
        "junit": {"junit": "pwned.xml"},
        "markdown": {"markdown": "pwned.md"},
        "upload": {"upload": True, "project": f"{server.url}/api/projects/p"},
        "mlflow": {"mlflow": server.url},
        "prompt": {"set": {"difference.prompty": str(elsewhere / "p.prompty")}, "evaluators": ["difference"]},
    }


@pytest.mark.parametrize("what", ["code", "secret", "judge", "junit", "markdown", "upload", "mlflow", "prompt"])
@pytest.mark.parametrize("how", ["--resume", "--reuse"])
def test_what_a_run_of_somebody_else_recorded_has_to_be_typed(
    home: Path, elsewhere: Path, ran: Path, server: FaultServer, how: str, what: str
) -> None:
    recorded = recorded_endpoint(home, elsewhere, server)[what]
    run = by_somebody_else(begun(home), **recorded)
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    done = evaluated(home, how, run.name, AWS_SECRET_ACCESS_KEY="s3cret-s3cret")
    assert done.code == 2, done
    assert as_typed(done.err)[:4] == ["evaluate", "--quiet", how, run.name]
    assert (ran.exists(), server.requests, [*home.glob("pwned*")]) == (False, [], [])
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before
    dry = evaluated(home, how, run.name, "--dry-run")
    assert (dry.code, ran.exists(), server.requests) == (2, False, [])


def test_the_refusal_prints_the_command_to_type(home: Path, elsewhere: Path, ran: Path) -> None:
    run = by_somebody_else(begun(home), junit="it.xml", endpoint=str(elsewhere / "evil.yaml"))
    typed = as_typed(evaluated(home, "--reuse", run.name).err)
    assert inside(home, *typed).code == 0
    assert ran.exists()
    assert (home / "it.xml").exists()


def test_what_was_typed_over_a_record_is_kept(home: Path, elsewhere: Path, server: FaultServer, ran: Path) -> None:
    asks(home / "mine.yaml", server)
    run = by_somebody_else(begun(home, "--endpoint", "mine.yaml"), endpoint=str(elsewhere / "evil.yaml"))
    done = evaluated(home, "--resume", run.name, "--endpoint", "mine.yaml")
    assert (done.code, ran.exists()) == (0, False), done
    assert json.loads((run / "run.json").read_text("utf-8"))["command"]["endpoint"] == "mine.yaml"


def test_texts_of_an_openapi_file_are_literals(home: Path, ran: Path) -> None:
    text = "\"\"\"\n'''; " + MARK.format(mark=str(ran)) + " #\\"
    schema = {"type": "object", "description": text, "properties": {text: {"type": "string", "enum": [text]}}}
    body = {"content": {"application/json": {"schema": schema}}}
    operation = {"operationId": text, "summary": text, "requestBody": body, "responses": {}}
    document = {"openapi": "3.1.0", "paths": {f"/{text}": {"post": operation}}}
    (home / "api.json").write_text(json.dumps(document), "utf-8")
    inside(home, "datasets", "author", "mine", "--openapi", "api.json", "--tasks", "1")
    load_file(home / "simulators" / "mine.py", "made_of_openapi")
    assert not ran.exists()


@pytest.mark.parametrize(
    ("recorded", "typed"),
    [
        (["--endpoint", "mine"], ["--endpoint", "mine"]),
        (["--concurrency", "2"], ["--concurrency", "3"]),
        (["--set", "match.ordered=true"], ["--set", "match.ordered=true"]),
    ],
)
def test_a_run_of_somebody_else_sets_nothing_that_acts_even_if_it_is_harmless(
    home: Path, server: FaultServer, recorded: list[str], typed: list[str]
) -> None:
    asks(home / "endpoints" / "mine.yaml", server)
    run = by_somebody_else(begun(home, *recorded))
    done = evaluated(home, "--resume", run.name)
    assert (done.code, f"needs consent to set {typed[0]}: type" in done.err) == (2, True), done
    assert evaluated(home, "--resume", run.name, *typed).code == 0


def test_a_run_of_somebody_else_elsewhere_does_not_act(home: Path, elsewhere: Path, server: FaultServer) -> None:
    asks(home / "endpoints" / "mine.yaml", server)
    run = Path(shutil.move(by_somebody_else(begun(home, "--endpoint", "mine")), elsewhere))
    server.requests.clear()
    done = evaluated(home, "--resume", str(run))
    assert (done.code, server.requests, "needs consent to set --endpoint" in done.err) == (2, [], True), done


def test_score_takes_no_judge_from_a_run_of_somebody_else(home: Path, elsewhere: Path, ran: Path) -> None:
    run = by_somebody_else(begun(home), status="finished", judge=str(elsewhere / "evil.yaml"))
    done = inside(home, "score", str(run))
    assert (done.code, ran.exists()) == (2, False)
    assert as_typed(done.err) == ["score", str(run), "--trust", str(run)]


def copied(run: Path) -> Path:
    return shutil.copytree(run, run.with_name(f"copy-of-{run.name}"), dirs_exist_ok=True)


@pytest.mark.parametrize("command", [("report",), ("compare", "{other}", "--allow-simulated"), ("runs",)])
def test_a_run_of_somebody_else_is_read_without_anything_being_loaded(
    home: Path, elsewhere: Path, ran: Path, server: FaultServer, command: tuple[str, ...]
) -> None:
    run = by_somebody_else(begun(home), "finished", **recorded_endpoint(home, elsewhere, server)["code"])
    name, *more = (word.format(other=copied(run)) for word in command)
    done = inside(home, name, *([] if name == "runs" else [str(run)]), *more)
    assert (done.code, ran.exists(), server.requests) == (0, False, []), done


@pytest.fixture
def with_facts(home: Path, server: FaultServer, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run of the user's own with failed rows; it records that the API takes no `stop`."""
    refused = ["stop"]

    def plan(seen: Request, attempt: int) -> Step:
        if "stop" not in seen.json()["params"]:  # type: ignore[index]
            return failing(500) if refused else answer({"result": "hello"})
        return failing(400, "the parameter 'stop' is not supported")

    monkeypatch.setattr(server, "_plan", plan)
    asks(home / "endpoints" / "mine.yaml", server, "parameters: {stop: x}\n")
    assert evaluated(home, "--dataset", "small.jsonl", "--limit", "2", "--endpoint", "mine").code == 1
    refused.clear()
    server.requests.clear()
    (run,) = (folder for folder in (home / "eval_results").iterdir() if folder.name.startswith("small"))
    return run


def test_what_an_api_takes_is_known_to_ones_own_resumed_run(home: Path, with_facts: Path, server: FaultServer) -> None:
    assert evaluated(home, "--resume", with_facts.name).code == 0
    assert [request.json()["params"] for request in server.requests] == [{}, {}]  # type: ignore[index]


@pytest.mark.parametrize("facts", [{"reasoning_fields": ["content"]}, {"roles": ["user"]}, {"parameters": {"stop": 1}}])
def test_what_others_say_of_an_api_is_ignored(home: Path, with_facts: Path, server: FaultServer, facts: object) -> None:
    rewrite(with_facts / "run.json", api={"target": facts})
    evaluated(home, "--resume", with_facts.name, "--endpoint", "mine")
    first = server.requests[0].json()
    assert first["params"] == {"stop": "x"}  # type: ignore[index]
    assert first["input_data"][0]["content"].startswith("question")  # type: ignore[index]


def test_a_parent_elsewhere_that_somebody_else_recorded_is_not_read(home: Path, tmp_path: Path) -> None:
    other = begun(workspace(tmp_path / "other"))
    run = by_somebody_else(begun(home))
    rewrite(run / "run.json", parent=str(other))
    said = " ".join(inside(home, "evaluate", "--resume", run.name).out.split())  # a long path breaks lines
    assert said.count("another user's run.json names this run, so it is not read") == 1


@pytest.mark.parametrize("kind", ["definitions", "config", "judge", "generator"])
def test_a_memory_run_of_others_does_nothing_it_recorded(home: Path, elsewhere: Path, ran: Path, kind: str) -> None:
    (elsewhere / "kind.py").write_text(MARK.format(mark=str(ran)), "utf-8")
    benchmark = "datasets: {datasets: [{name: %s}]}\n"
    (elsewhere / "evil.yml").write_text(benchmark % "kind.py", "utf-8")
    (home / "good.yml").write_text(benchmark % "colours", "utf-8")
    evil = f"{elsewhere}/evil.yaml"
    acting = {"definitions": f"{elsewhere}/made", "config": f"{elsewhere}/evil.yml", "judge": evil, "generator": evil}
    recorded = {"config": "good.yml", "endpoint": "simulated", kind: acting[kind]}
    run = by_somebody_else(begun(home))
    rewrite(run / "run.json", command={"memory_run": recorded})
    done = inside(home, "memory", "run", "--resume", run.name)
    assert (done.code, ran.exists(), (elsewhere / "made").exists()) == (2, False, False), done
    assert as_typed(done.err)[:4] == ["memory", "run", "--resume", run.name]


def test_ones_own_run_goes_on_with_everything_it_recorded(home: Path, elsewhere: Path, ran: Path) -> None:
    run = begun(home, "--endpoint", str(elsewhere / "evil.yaml"), "--set", "match.alternatives=false")
    ran.unlink()
    assert afresh(home, "--resume", run.name).code == 0
    assert ran.exists()
    assert evaluated(home, "--reuse", run.name).code == 0
    assert inside(home, "score", run.name).code == 0


def test_an_endpoint_has_changed_when_what_decides_its_answers_has(home: Path, server: FaultServer) -> None:
    mine = home / "endpoints" / "mine.yaml"
    asks(mine, server, "limits: {concurrency: 2}\n")
    run = begun(home, "--endpoint", "mine")
    asks(mine, server, "limits: {concurrency: 3}\ntimeout_s: 9\nprice: {input_per_million: 1}\n")
    assert evaluated(home, "--resume", run.name).code == 0
    assert len(server.requests) == 6
    asks(mine, server, "limits: {concurrency: 3}\nparameters: {temperature: 1}\n")
    refused = evaluated(home, "--resume", run.name)
    assert refused.code == 2
    assert "the target's parameters changed from" in refused.err
    assert "limits" not in refused.err
    assert len(server.requests) == 6


def test_an_endpoint_of_ones_own_kind_has_not_changed_with_its_limits(home: Path) -> None:
    kind = """
import msgspec
from tunecheck.endpoints import Completion, Endpoint, EndpointConfig

class EchoConfig(EndpointConfig, frozen=True, kw_only=True):
    text: str
    limits: dict[str, int] = {}

class Echo(Endpoint):
    kind = "echo"
    config_type = EchoConfig

    def __init__(self, definition):
        self.name, self._data = definition.name, dict(definition.data)
        self._config = definition.read(EchoConfig)

    async def complete(self, request):
        return Completion(text=self._config.text)

    def settings(self):
        return self._data
"""
    (home / "endpoints" / "echo.py").write_text(kind, "utf-8")
    (home / "endpoints" / "mine.yaml").write_text("kind: echo\ntext: hello\nlimits: {concurrency: 1}\n", "utf-8")
    run = begun(home, "--endpoint", "mine")
    (home / "endpoints" / "mine.yaml").write_text("kind: echo\ntext: hello\nlimits: {concurrency: 2}\n", "utf-8")
    assert evaluated(home, "--resume", run.name).code == 0
    (home / "endpoints" / "mine.yaml").write_text("kind: echo\ntext: hi\nlimits: {concurrency: 2}\n", "utf-8")
    assert "text changed from hello to hi" in evaluated(home, "--resume", run.name).err


def test_ones_own_run_is_somebody_elses_in_another_workspace(home: Path, elsewhere: Path, tmp_path: Path) -> None:
    run = begun(home, "--endpoint", str(elsewhere / "evil.yaml"))
    other = workspace(tmp_path / "other")
    shutil.copytree(run, other / "eval_results" / run.name)
    assert evaluated(other, "--resume", run.name).code == 2


@posix_only
def test_the_key_is_the_users_alone(home: Path, tmp_path: Path) -> None:
    own = {"TUNECHECK_CONFIG_DIR": str(tmp_path / "configuration")}
    assert evaluated(home, "--dataset", "small.jsonl", **own).code == 0
    key = tmp_path / "configuration" / "key"
    assert len(key.read_bytes()) == 32
    assert stat.S_IMODE(key.stat().st_mode) == 0o600


@posix_only
def test_nobody_else_writes_to_the_folder_of_the_key_and_of_trusted_files(home: Path, tmp_path: Path) -> None:
    own, before = tmp_path / "configuration", os.umask(0)
    try:
        assert inside(home, "trust", "datasets/small.yaml", TUNECHECK_CONFIG_DIR=str(own)).code == 0
    finally:
        os.umask(before)
    assert [stat.S_IMODE(folder.stat().st_mode) for folder in (own, own / "trusted")] == [0o700, 0o700]


def test_a_run_without_a_home_to_write_to_works_unsigned(home: Path, tmp_path: Path) -> None:
    (tmp_path / "a-file").touch()
    own = {"TUNECHECK_CONFIG_DIR": str(tmp_path / "a-file" / "below")}
    done = evaluated(home, "--dataset", "small.jsonl", **own)
    assert done.code == 0
    run = home / done.out.strip()
    assert json.loads((run / "run.json").read_text("utf-8"))["signature"] is None
    assert evaluated(home, "--resume", run.name, **own).code == 0


def test_a_configuration_elsewhere_does_not_act(home: Path, elsewhere: Path, ran: Path) -> None:
    config = elsewhere / "eval.yaml"
    runs_code(home / "endpoints" / "mine.yaml", ran)
    setting = "set: {{match.model: mine}}"
    for option in ("endpoint: {}/evil.yaml", "junit: {}/it.xml", "results_dir: {}/results", setting):
        line = option.format(elsewhere)
        config.write_text(f"dataset: small.jsonl\n{line}\n", "utf-8")
        done = evaluated(home, "--config", str(config))
        assert done.code == 2
        assert as_typed(done.err)[:4] == ["evaluate", "--quiet", "--config", str(config)]
        assert not ran.exists()
    assert not {"it.xml", "results"} & {path.name for path in elsewhere.iterdir()}
    config.write_text(f"dataset: small.jsonl\nendpoint: {elsewhere}/evil.yaml\n", "utf-8")
    assert evaluated(home, "--config", str(config), "--trust", str(config)).code == 0


def test_a_configuration_of_the_workspace_is_as_good_as_typed(home: Path, elsewhere: Path, ran: Path) -> None:
    text = f"dataset: small.jsonl\nendpoint: {elsewhere}/evil.yaml\njunit: it.xml\n"
    (home / "eval.yaml").write_text(text, "utf-8")
    assert evaluated(home, "--config", "eval.yaml").code == 0
    assert ran.exists()
    assert (home / "it.xml").exists()


def test_a_benchmark_elsewhere_runs_no_code_of_its_own(home: Path, elsewhere: Path, ran: Path) -> None:
    (elsewhere / "kind.py").write_text(MARK.format(mark=str(ran)), "utf-8")
    (elsewhere / "bench.yml").write_text("datasets: {datasets: [{name: kind.py}]}\n", "utf-8")
    replay(home, {"a": "b"})
    done = inside(home, "memory", "run", "-c", str(elsewhere / "bench.yml"), "--endpoint", "recorded")
    assert (done.code, ran.exists()) == (2, False), done
    assert f"--trust {elsewhere / 'kind.py'}" in done.err


def test_values_in_a_prompt_are_text(home: Path, ran: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_SECRET", "s3cret-s3cret")
    (home / "secret.png").write_bytes(b"s3cret")
    value = "${env:A_SECRET} ${file:secret.png} {{ 7 * 7 }} ![x](secret.png)"
    prompt = home / "it.prompty"
    prompt.write_text("---\nname: it\ninputs: {a: {type: string}}\n---\nuser:\n{{ a }}\n", "utf-8")
    assert value in str(load_prompt(prompt).render({"a": value}))


def test_what_a_model_answers_is_not_run(home: Path, ran: Path) -> None:
    code = f"__import__('pathlib').Path({str(ran)!r}).touch()"
    answers = (f"[{code}]", f"<tool_call>{code}</tool_call>", f"<|python_tag|>{code}", f"[book(day={code})]", code)
    replay(home, {f"r{number}": text for number, text in enumerate((*answers, "x"))})
    begun(home, "--endpoint", "recorded")
    assert not ran.exists()


def test_a_reply_leads_nowhere_else(home: Path, server: FaultServer) -> None:
    def elsewhere(seen: Request, attempt: int) -> Step:
        return Step(307, {"Location": f"{server.url}/score"})

    with FaultServer(elsewhere) as redirecting:
        asks(home / "endpoints" / "mine.yaml", redirecting, 'auth: {type: key, value: "${env:A_SECRET}"}\n')
        done = evaluated(home, "--dataset", "small.jsonl", "--endpoint", "mine", A_SECRET="s3cret-s3cret")
        assert (done.code, bool(redirecting.requests), server.requests) == (1, True, [])


def test_the_page_has_a_row_for_each_input_and_each_row_a_test() -> None:
    page = (ROOT / "docs" / "security.md").read_text("utf-8")
    table = page.partition("\n\n| input |")[2].partition("\n\n")[0]
    lines = [line.split(" | ") for line in table.splitlines()[2:]]
    assert [line[0].removeprefix("| ").split("(")[0].strip() for line in lines] == [*TESTED]
    assert all(len(line) == 3 for line in lines)


SHADOWED = ("yaml", "msgspec", "click", "aiohttp", "json", "typing", "dataclasses", "asyncio")


@pytest.mark.parametrize("program", [("-m", "tunecheck", "evaluate"), ("evaluate.py",)])
def test_a_module_of_the_current_folder_is_none_of_ours(home: Path, ran: Path, program: tuple[str, ...]) -> None:
    for name in SHADOWED:
        (home / f"{name}.py").write_text(MARK.format(mark=str(ran)), "utf-8")
    shutil.copy(ROOT / "evaluate.py", home)
    done = subprocess.run(
        [sys.executable, *program, "--dataset", "small.jsonl", "--quiet", "--workers", "1"],
        cwd=home, env=environment(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, ran.exists()) == (0, False), done.stderr


TESTED = {
    "options that you type, or arguments in Python": test_the_refusal_prints_the_command_to_type,
    "an installed package": test_where_only_built_in_code_runs_nothing_is_told,
    "a file of the workspace's own folders": test_the_first_time_code_of_a_workspace_runs_is_told_of,
    "a file of options in the workspace": test_a_configuration_of_the_workspace_is_as_good_as_typed,
    "a file of options elsewhere": test_a_configuration_elsewhere_does_not_act,
    "data in the workspace, and its sidecar": test_a_sidecar_of_the_workspace_names_no_endpoint_that_runs_code,
    "data elsewhere, and its sidecar": test_a_sidecar_elsewhere_names_installed_evaluators_only,
    "a run folder of your own": test_ones_own_run_goes_on_with_everything_it_recorded,
    "another person's run folder": test_what_a_run_of_somebody_else_recorded_has_to_be_typed,
    "an OpenAPI file": test_texts_of_an_openapi_file_are_literals,
    "values inserted into a prompt": test_values_in_a_prompt_are_text,
    "a model's answer": test_what_a_model_answers_is_not_run,
    "a server's reply": test_a_reply_leads_nowhere_else,
}
"""The rows of the table in docs/security.md, and a test of each."""
