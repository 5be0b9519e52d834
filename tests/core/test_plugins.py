"""Plug-ins are found by name: in entry points, in the workspace's folders, and in a distribution of their own."""

import base64
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import venv
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import ROOT
from tests.report_parts import data_of
from tests.tables import cases

from tunecheck import F1ScoreEvaluator, MissingExtraError, PluginError, compare, evaluate
from tunecheck.cli import main
from tunecheck.plugins import absent_plugins, discover, find, installed_plugins, kinds, load_by_name

GROUP = "evaluators"

Install = Callable[..., Path]
PluginWith = Callable[[str], Path]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """`install(distribution, module, source, entry_points)`: a third party's package, as an installer leaves it."""
    before = set(sys.modules)

    def made(distribution: str, module: str, source: str, entry_points: str) -> Path:
        site = tmp_path / f"site-{distribution}"
        info = site / f"{distribution}-1.2.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.2\n")
        (info / "entry_points.txt").write_text(entry_points)
        (site / f"{module}.py").write_text(source)
        monkeypatch.syspath_prepend(site)
        return site

    yield made
    for name in set(sys.modules) - before:
        if name.startswith(("acme_", "tunecheck_workspace")):
            del sys.modules[name]


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "workspace"
    for kind in ("evaluators", "endpoints", "simulators", "prompty"):
        (folder / kind).mkdir(parents=True)
    monkeypatch.chdir(folder)
    yield folder
    for name in [name for name in sys.modules if name.startswith("tunecheck_workspace")]:
        del sys.modules[name]


ACME = "def length(*, response):\n    return {'length': len(response)}\n"
PLUGIN = (
    "from tunecheck.plugins import Code, Extension, Plugin\n"
    "PLUGIN = Plugin('acme', 'An example.', {})\n"
    "def size(*, response):\n    return {{'size': len(response)}}\n"
)
MORE = "extra='more', requires=('acme_needed',), "
SIZE = "evaluators={'acme_size': Extension('acme_pack:size', 'Size.')}"
POINTS = "[tunecheck.evaluators]\nacme_length = acme_evals:length\n"


@pytest.fixture
def plugin(install: Install) -> PluginWith:
    """`plugin(brings)`: an installed plug-in that brings this."""
    points = "[tunecheck.plugins]\nacme = acme_pack:PLUGIN\n"
    return lambda brings: install("acme-pack", "acme_pack", PLUGIN.format(brings), points)


def test_an_installed_distribution_s_evaluator_is_used_by_name(install: Install, tmp_path: Path) -> None:
    install("acme_evals", "acme_evals", ACME, POINTS)
    result = evaluate(data=[{"response": "four"}], evaluators={"n": "acme_length"}, results_dir=tmp_path / "runs")
    assert result["metrics"]["n.length"] == 4  # type: ignore[index]


def test_nothing_is_imported_before_it_is_asked_for(install: Install) -> None:
    install("acme_evals", "acme_evals", "raise RuntimeError('imported')", POINTS)
    discover(GROUP)
    assert "acme_evals" not in sys.modules


@cases("others")
def test_a_plugin_that_cannot_be_meant_or_loaded_is_named(
    install: Install, workspace: Path, packages: list[list[str]], file: str | None, name: str, said: str
) -> None:
    for package in packages:
        install(*package)
    if file is not None:
        (workspace / "evaluators" / f"{name}.py").write_text(file)
    with pytest.raises(PluginError, match=said):
        find(GROUP, name)


def test_helpers_in_a_file_are_no_extensions(workspace: Path) -> None:
    helpers = (
        "class Kind(enum.Enum): A = 1\nclass Given(typing.TypedDict): a: str\nclass Pair(typing.NamedTuple): a: str\n"
    )
    text = (
        f"import enum, typing\nimport tunecheck\n{helpers}class Wrong(tunecheck.TunecheckError): ...\ndef rate(): ...\n"
    )
    (workspace / "evaluators" / "mixed.py").write_text(text)
    assert find(GROUP, "mixed").__name__ == "rate"


def test_a_distribution_found_twice_is_one(install: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = install("acme_evals", "acme_evals", ACME, POINTS)
    link = tmp_path / "again"
    link.symlink_to(site)
    monkeypatch.syspath_prepend(link)
    assert callable(find(GROUP, "acme_length"))


@cases("others")
def test_a_file_dropped_into_the_workspace_is_used_by_its_name(workspace: Path, source: str) -> None:
    (workspace / "evaluators" / "word_count.py").write_text(source)
    result = evaluate(data=[{"response": "two words"}], evaluators={"n": "word_count"}, workers=0)
    assert result["metrics"]["n.n"] == 2  # type: ignore[index]


def test_a_workspace_s_evaluator_runs_in_worker_processes_too(workspace: Path) -> None:
    (workspace / "evaluators" / "where.py").write_text(
        "import os\n\nclass Where:\n    def __call__(self, *, response):\n        return {'pid': os.getpid()}\n"
    )
    result = evaluate(data=[{"response": "x"}] * 5, evaluators={"where": "where"}, workers=1)
    pids = {row["outputs.where.pid"] for row in result["rows"]}  # type: ignore[attr-defined]
    assert len(pids) == 1
    assert pids != {os.getpid()}
    assert result.notes == []


def test_a_changed_workspace_file_is_loaded_again(workspace: Path) -> None:
    file = workspace / "evaluators" / "constant.py"
    values = []
    for number in (1, 2):
        file.write_text(f"def constant(response): return {number}")
        result = evaluate(data=[{"response": "x"}], evaluators={"c": "constant"}, workers=0)
        values.append(result["metrics"]["c.c"])  # type: ignore[index]
    assert values == [1, 2]


def test_loading_a_workspace_file_leaves_nothing_beside_it(workspace: Path) -> None:
    (workspace / "evaluators" / "constant.py").write_text("def constant(response): return 1")
    find(GROUP, "constant")
    assert [path.name for path in (workspace / "evaluators").iterdir()] == ["constant.py"]


@cases("others")
def test_a_broken_plugin_file_is_one_line_that_names_it(workspace: Path, source: str, said: str) -> None:
    (workspace / "evaluators" / "broken.py").write_text(source)
    with pytest.raises(PluginError, match=said) as refusal:
        find(GROUP, "broken")
    assert "evaluators/broken.py" in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_a_broken_plugin_file_does_not_disturb_the_others(workspace: Path) -> None:
    (workspace / "evaluators" / "broken.py").write_text("def broken(:")
    (workspace / "evaluators" / "fine.py").write_text("def fine(response): return 1")
    assert callable(find(GROUP, "fine"))


def test_private_files_and_names_that_are_no_identifiers_are_left_alone(workspace: Path) -> None:
    for name in ("_private.py", "two words.py", "__init__.py", "notes.txt"):
        (workspace / "evaluators" / name).write_text("raise RuntimeError")
    assert not [plugin for plugin in discover(GROUP) if plugin.origin.startswith("evaluators")]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
def test_a_pipe_is_no_evaluator_and_is_not_waited_for(workspace: Path) -> None:
    for name in ("evaluators/pipe.py", "prompty/pipe.prompty"):
        os.mkfifo(workspace / name)
    assert "pipe" not in [plugin.name for plugin in discover(GROUP)]


def test_a_workspace_s_endpoint_kind_is_loaded_only_when_it_is_asked_for(workspace: Path) -> None:
    (workspace / "endpoints" / "evil.py").write_text("raise RuntimeError")
    assert "evil" in {plugin.name for plugin in discover("endpoints")}
    with pytest.raises(PluginError, match=r"plug-in 'evil' \(.*evil\.py\) does not load: RuntimeError"):
        find("endpoints", "evil")


@cases("others")
def test_types_of_values_errors_and_functions_may_stand_beside_a_simulator(workspace: Path, beside: str) -> None:
    text = "import enum, typing\nfrom tunecheck.simulators import Simulator\nclass Shop(Simulator):\n    pass\n"
    (workspace / "simulators" / "shop_api.py").write_text(text + beside)
    assert getattr(find("simulators", "shop_api"), "__name__", "") == "Shop"


def test_a_class_s_kind_says_which_of_several_is_meant(workspace: Path) -> None:
    text = "class Settings: ...\nclass Other:\n    kind = 'other'\nclass Mine:\n    kind = 'mine'\n"
    (workspace / "endpoints" / "mine.py").write_text(text)
    assert getattr(find("endpoints", "mine"), "__name__", "") == "Mine"
    (workspace / "endpoints" / "mine.py").write_text(text.replace("'mine'", "'ours'"))
    with pytest.raises(
        PluginError,
        match=r"give the intended class or function the name 'mine' or 'endpoint', or set its kind = 'mine'$",
    ):
        find("endpoints", "mine")


def test_everything_that_our_own_plugins_name_is_there() -> None:
    named = [each for kind in kinds() for each in discover(kind) if each.plugin is not None]
    assert len(named) > 70
    for candidate in named:
        assert candidate.load() is not None, candidate.origin


def test_a_plugin_whose_package_is_missing_is_skipped_and_an_unknown_name_speaks_of_it(install: Install) -> None:
    install("acme_pack", "acme_other", "", "[tunecheck.plugins]\nacme = acme_pack.plugin:PLUGIN\n")
    assert ("acme", "the package acme_pack is not installed") in [
        (each.name, each.problem) for each in absent_plugins()
    ]
    with pytest.raises(PluginError, match=r"no 'acme_length' .* not installed: acme \(acme_pack\)"):
        find(GROUP, "acme_length")


def test_an_unknown_name_speaks_of_a_plugin_that_does_not_load(
    install: Install, capsys: pytest.CaptureFixture[str]
) -> None:
    install("acme_pack", "acme_pack", "import acme_unknown", "[tunecheck.plugins]\nacme = acme_pack:PLUGIN\n")
    install("acme_gone", "acme_other", "", "[tunecheck.plugins]\nacme_gone = acme_gone:PLUGIN\n")
    assert main(["polite"]) == 2
    said = capsys.readouterr().err
    assert "it may belong to a plug-in that does not load (see `tunecheck plugins`): acme (acme_pack)" in said
    assert "it may belong to a plug-in that is not installed: acme_gone (acme_gone)" in said


@pytest.mark.parametrize("needed", ["acme_needed", "acme_needed.part", "json.acme_part", "json.decoder.acme_part"])
def test_a_plugin_without_a_package_that_it_needs_says_what_to_install(plugin: PluginWith, needed: str) -> None:
    plugin(MORE.replace("acme_needed", needed) + SIZE)
    said = r"the evaluator 'acme_size' needs .* pip install 'acme-pack\[more\]'"
    with pytest.raises(MissingExtraError, match=said):
        find(GROUP, "acme_size")


def test_a_needed_package_that_fails_is_reported_by_the_extension_that_imports_it(
    install: Install, plugin: PluginWith
) -> None:
    install("acme_needed", "acme_needed", "raise RuntimeError('the driver is too old')", "")
    plugin(MORE.replace("acme_needed", "acme_needed.part") + SIZE.replace("acme_pack:size", "acme_needed:size"))
    with pytest.raises(PluginError, match=r"'acme_size' .* does not load: RuntimeError: the driver is too old"):
        find(GROUP, "acme_size")


def test_a_missing_extra_does_not_stop_other_commands(plugin: PluginWith, capsys: pytest.CaptureFixture[str]) -> None:
    plugin(MORE + "commands={'acme get': Extension('acme_needed:get', 'Get.')}")
    assert main(["runs", "--endpoint", "x"]) == 2
    assert capsys.readouterr().err.startswith("error: No such option '--endpoint'")


def test_a_plugin_brings_what_it_names(plugin: PluginWith) -> None:
    plugin(SIZE)
    assert next(iter(installed_plugins())).name == "core"
    result = evaluate(data=[{"response": "four"}], evaluators={"n": "acme_size"}, workers=0)
    assert result["metrics"]["n.size"] == 4  # type: ignore[index]


def test_a_plugin_s_codes_have_titles_and_its_causes_count(install: Install, tmp_path: Path) -> None:
    source = (
        "from tunecheck import Fault, verdict\n"
        "from tunecheck.plugins import Code, Extension, Plugin\n"
        "PLUGIN = Plugin('acme', 'An example.', evaluators={'acme_polite': Extension('acme_pack:polite', '')},\n"
        "    codes={'acme_rude': Code('was rude', 'model', 'train on kinder answers')})\n"
        "def polite(*, response):\n"
        "    return verdict('polite', passed=False, faults=[Fault(code='acme_rude')])\n"
    )
    install("acme_pack", "acme_pack", source, "[tunecheck.plugins]\nacme = acme_pack:PLUGIN\n")
    result = evaluate(data=[{"response": "no"}], evaluators={"p": "acme_polite"}, workers=0, results_dir=tmp_path)
    assert result["rows"][0]["outputs.p.polite_reason"] == "was rude"  # type: ignore[index]
    assert result["metrics"]["cause.acme_rude"] == 1.0  # type: ignore[index]


def test_a_plugin_without_its_extra_does_not_stop_what_nobody_asked_it_for(plugin: PluginWith, tmp_path: Path) -> None:
    plugin(MORE + "sources={'acme_runs': Extension('acme_needed:opened', 'Runs.')}")
    rows = [{"response": "yes", "ground_truth": "yes"}]
    runs = [
        evaluate(data=rows, evaluators={"f1": F1ScoreEvaluator()}, results_dir=tmp_path, workers=0, progress=False)
        for _ in range(2)
    ]
    compared = compare(runs[0].run_dir, runs[1].run_dir, pair_by="id")
    assert "f1" in compared.metrics


OPTIONS = """
from tunecheck.cli import AddedOptions, Addition, flag, option
from tunecheck.plugins import Extension, Plugin

PLUGIN = Plugin("{name}", "An example.", options={{"{name}": Extension("{name}:AcmeOptions", "Options.")}})

class AcmeOptions(AddedOptions):
    {option}
    def before_run(self, *, simulated, allow_simulated):
        return lambda run: Addition({{"{name}": self._mark()}})
    def _mark(self):
        return "{name}"
"""
AcmeOptions = Callable[[str, str], Path]


@pytest.fixture
def acme_options(install: Install) -> AcmeOptions:
    """`acme_options(name, option)`: install a plug-in that adds this option to `evaluate`; return its folder."""

    def add(name: str, option: str) -> Path:
        source = OPTIONS.format(name=name, option=option)
        return install(name, name, source, f"[tunecheck.plugins]\n{name} = {name}:PLUGIN\n")

    return add


def tunecheck_with(*words: str, sites: Sequence[Path]) -> subprocess.CompletedProcess[str]:
    """Run tunecheck in a process of its own, because the options of plug-ins are merged only once in a process."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, sites)), "NO_COLOR": "1"}
    command = [sys.executable, "-m", "tunecheck", *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True)


EVALUATE = ("evaluate", "--dataset", "rows.jsonl", "--response-column", "response", "--evaluators", "bleu",
            "--mapping", "ground_truth=x")  # fmt: skip


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        ("limit: int | None = option('', 'N')", "", "--limit of acme_a:AcmeOptions of acme_a .* of Tunecheck: rename"),
        ("folder: str | None = option('', 'N')", "", "--folder of acme_a:AcmeOptions of acme_a .* of Tunecheck: "),
        ("shout: bool = flag('')", "shout: str | None = option('', 'X')", "--shout of acme_a:.* method of acme_b:"),
        ("shout: bool = flag('')", "def shout(self): ...", "--shout of acme_a:.* method of acme_b:"),
        ("def shout(self): ...", "shout: bool = flag('')", "--shout of acme_b:.* method of acme_a:"),
    ],
)
def test_an_option_with_a_used_name_is_refused(
    acme_options: AcmeOptions, workspace: Path, first: str, second: str, said: str
) -> None:
    done = tunecheck_with("evaluate", "--help", sites=[acme_options("acme_a", first), acme_options("acme_b", second)])
    assert done.returncode == 2
    assert re.match(f"error: {said}", done.stderr)


def test_evaluate_py_refuses_an_option_with_a_used_name_in_one_line(acme_options: AcmeOptions) -> None:
    environment = os.environ | {"PYTHONPATH": str(acme_options("acme_a", "limit: int | None = option('', 'N')"))}
    command = [sys.executable, str(ROOT / "evaluate.py"), "--help"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 2
    assert re.fullmatch("error: --limit of acme_a.*\n", done.stderr)


RUNNING_COMMAND = """
from typing import ClassVar
from tunecheck import BleuScoreEvaluator, evaluate
from tunecheck.cli import ResumableOptions, begin, command, option, run_arguments
from tunecheck.plugins import Extension, Plugin
PLUGIN = Plugin("acme", "Acme.", commands={"acme run": Extension("acme:run", "Run Acme's benchmark.")})
class RunOptions(ResumableOptions):
    command: ClassVar[str] = "acme run"
    rows: str | None = option("Rows of the benchmark.", "FILE")
@command(RunOptions)
def run(options, invocation):
    \"\"\"Run.\"\"\"
    options, trust = begin(options, invocation)
    evaluate(data=options.rows, evaluators={"bleu": BleuScoreEvaluator()}, **run_arguments(options, "acme"))
    return 0
"""


def test_a_run_of_a_plug_ins_command_is_resumed_by_that_command_alone(install: Install, workspace: Path) -> None:
    site = install("acme", "acme", RUNNING_COMMAND, "[tunecheck.plugins]\nacme = acme:PLUGIN\n")
    (workspace / "rows.jsonl").write_text('{"response": "x", "ground_truth": "x"}\n')
    assert tunecheck_with("acme", "run", "--rows", "rows.jsonl", sites=[site]).returncode == 0
    resumed = tunecheck_with("acme", "run", "--resume", "last", sites=[site])
    assert (resumed.returncode, resumed.stderr.count("error")) == (0, 0)
    refused = tunecheck_with("evaluate", "--resume", "last", sites=[site])
    assert "to finish it, use `tunecheck acme run --resume " in refused.stderr


def test_a_class_of_options_may_be_decorated_as_a_dataclass(install: Install, workspace: Path) -> None:
    declared = "from dataclasses import dataclass\n" + OPTIONS.format(name="acme_a", option="loud: bool = flag('')")
    decorated = declared.replace("class Acme", "@dataclass(frozen=True, kw_only=True)\nclass Acme")
    site = install("acme_a", "acme_a", decorated, "[tunecheck.plugins]\nacme_a = acme_a:PLUGIN\n")
    (workspace / "rows.jsonl").write_text('{"response": "x"}\n')
    done = tunecheck_with(*EVALUATE, "--loud", "--json", sites=[site])
    assert json.loads(done.stdout)["acme_a"] == "acme_a"


def test_helpers_of_options_may_have_equal_names(acme_options: AcmeOptions, workspace: Path) -> None:
    sites = [acme_options("acme_a", "loud: bool = flag('')"), acme_options("acme_b", "quietly: bool = flag('')")]
    (workspace / "rows.jsonl").write_text('{"response": "x"}\n')
    printed = json.loads(tunecheck_with(*EVALUATE, "--loud", "--json", sites=sites).stdout)
    assert (printed["acme_a"], printed["acme_b"]) == ("acme_a", "acme_b")


def test_a_command_s_invocation_has_its_results_dir(
    install: Install, workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = """
from tunecheck.cli import ResultsOptions, command
from tunecheck.plugins import Extension, Plugin

PLUGIN = Plugin("acme", "An example.", commands={"acme": Extension("acme_folder:acme", "Print the folder.")})

@command(ResultsOptions)
def acme(options, invocation):
    print(options.folder, invocation.results_dir)
    return 0
"""
    install("acme_folder", "acme_folder", source, "[tunecheck.plugins]\nacme = acme_folder:PLUGIN\n")
    assert main(["acme", "--results-dir", "elsewhere"]) == main(["acme"]) == 0
    assert capsys.readouterr().out == "elsewhere elsewhere\neval_results eval_results\n"


BEFORE = "\n    def before_run(self, *, simulated, allow_simulated): return "
RAISE, RAISED = "[][0]", "IndexError: list index out of range"
PANEL = """
from tunecheck.plugins import Extension, Plugin

PLUGIN = Plugin("acme", "An example.", panels={"acme": Extension("acme_panel:PANEL", "A panel.")})

class Acme:
    script, style = "", ""
    def reader(self, folder): return self
    def add(self, number, row): return None
    def data(self): return None
"""


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (RAISE, RAISED),
        ("None", "TypeError: AcmeOptions.before_run returned an object of type NoneType, not Callable"),
        (f"lambda run: {RAISE}", RAISED),
        (
            "lambda run: None",
            "TypeError: AcmeOptions.before_run.<locals>.<lambda> returned an object of type NoneType, not Addition",
        ),
    ],
)
def test_an_option_that_fails_is_named(acme_options: AcmeOptions, workspace: Path, body: str, said: str) -> None:
    site = acme_options("acme_a", "loud: bool = flag('')")
    module = site / "acme_a.py"
    module.write_text(module.read_text() + BEFORE + body + "\n")
    (workspace / "rows.jsonl").write_text('{"response": "x"}\n')
    done = tunecheck_with(*EVALUATE, "--json", sites=[site])
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == f"error: plug-in 'acme_a' (acme_a:AcmeOptions of acme_a) fails: {said}"
    # The results of a finished run are printed before the error.
    assert ('"metrics"' in done.stdout) == ("lambda" in body)


@pytest.mark.parametrize(
    ("method", "said"),
    [
        (f"def reader(self, folder): {RAISE}", RAISED),
        (f"def add(self, number, row): {RAISE}", RAISED),
        (
            "def add(self, number, row): return 1",
            "TypeError: Acme.add returned an object of type int, not tunecheck.report._details.PanelRow | None",
        ),
        (f"def data(self): {RAISE}", RAISED),
    ],
)
def test_a_panel_that_fails_is_named(
    install: Install, workspace: Path, capsys: pytest.CaptureFixture[str], method: str, said: str
) -> None:
    source = f"{PANEL}    {method}\n\nPANEL = Acme()\n"
    install("acme_panel", "acme_panel", source, "[tunecheck.plugins]\nacme = acme_panel:PLUGIN\n")
    (workspace / "rows.jsonl").write_text('{"response": "x"}\n')
    assert main([*EVALUATE, "--quiet"]) == 0
    assert main(["report", "last"]) == 2
    line = f"error: plug-in 'acme' (acme_panel:PANEL of acme_panel) fails: {said}"
    assert capsys.readouterr().err.splitlines()[-1] == line


@pytest.mark.parametrize("kind", ["panels", "tables"])
def test_two_panels_or_tables_with_one_name_are_refused(install: Install, kind: str) -> None:
    for name in ("acme_a", "acme_b"):
        extensions = f'{kind}={{"acme_shown": Extension("{name}:SHOWN", "An example.")}}'
        source = f"from tunecheck.plugins import Extension, Plugin\nPLUGIN = Plugin('{name}', '', {extensions})\n"
        install(name, name, f"{source}SHOWN = '{name}'\n", f"[tunecheck.plugins]\n{name} = {name}:PLUGIN\n")
    with pytest.raises(PluginError, match=f"two {kind} have the name 'acme_shown' .*acme_a.* and .*acme_b"):
        load_by_name(kind)


SCRIPTS = {
    "a": 'panel("a", { title: "A", draw() { throw new Error("boo"); }, row: () => unknown })',
    "b": 'panel("b", {',
    "c": 'panel("c", { title: "C", draw: (text) => [el("p", {}, data(text))], row: (text) => el("p", {}, text) })',
}


def test_a_panel_whose_script_fails_leaves_the_rest_of_the_report(install: Install, workspace: Path) -> None:
    panels = "".join(f"{name.upper()} = Acme()\n{name.upper()}.script = {text!r}\n" for name, text in SCRIPTS.items())
    listed = ", ".join(f"'{name}': Extension('acme_panel:{name.upper()}', '')" for name in SCRIPTS)
    source = PANEL.replace('"acme": Extension("acme_panel:PANEL", "A panel.")', listed) + panels
    site = install("acme_panel", "acme_panel", source, "[tunecheck.plugins]\nacme = acme_panel:PLUGIN\n")
    (workspace / "rows.jsonl").write_text('{"response": "x"}\n')
    for words in (EVALUATE, ("report", "last")):
        assert tunecheck_with(*words, sites=[site]).returncode == 0

    (report,) = workspace.glob("eval_results/*/report.html")
    text = report.read_text("utf-8")
    scripts = re.findall("<script>(.*?)</script>", text, re.DOTALL)
    hashes = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    assert all(f"&#x27;sha256-{each}&#x27;" in text for each in hashes)
    assert [sum(script in each for each in scripts) for script in SCRIPTS.values()] == [1, 1, 1]

    if (node := shutil.which("node")) is None:
        pytest.skip("there is no node here")
    command = [node, str(ROOT / "tests" / "panels_in_node.js"), str(report), json.dumps(dict.fromkeys(SCRIPTS, "hi"))]
    sections, rows = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    failed = ["The panel a cannot be shown: Error: boo", "The panel b cannot be shown: Error: its script does not run"]
    assert sections == ["A" + failed[0], "b" + failed[1], "Chi"]
    assert rows == [failed[0].replace("Error: boo", "ReferenceError: unknown is not defined"), failed[1], "hi"]


TOY = ROOT / "tests" / "toy_plugin"
PAGE = ROOT / "docs" / "plugins.md"


class Environment:
    """A virtual environment that sees the packages installed here, Tunecheck among them, and the toy plug-in."""

    def __init__(self, folder: Path) -> None:
        self.workspace = folder / "workspace"
        self.workspace.mkdir()
        venv.create(folder / "venv", symlinks=True)
        self._python = folder / "venv" / ("Scripts" if os.name == "nt" else "bin") / "python"
        site = next((folder / "venv").rglob("site-packages"))
        seen = [path for path in sys.path if "site-packages" in path]
        (site / "seen.pth").write_text("\n".join([str(ROOT / "src"), *seen]), encoding="utf-8")

    def install(self, project: Path) -> None:
        pip = ("-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", str(project))
        done = self._run(*pip)
        assert done.returncode == 0, done.stderr[-2000:]

    def tunecheck(self, *words: str, exit_code: int = 0) -> str:
        done = self._run("-m", "tunecheck", *words)
        assert done.returncode == exit_code, f"{words}: {done.stdout[-500:]}{done.stderr[-2000:]}"
        return done.stdout + done.stderr

    def _run(self, *words: str) -> subprocess.CompletedProcess[str]:
        environment = os.environ | {"COLUMNS": "100", "NO_COLOR": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
        return subprocess.run(
            [str(self._python), *words], cwd=self.workspace, env=environment, capture_output=True, text=True
        )


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    environment = Environment(tmp_path_factory.mktemp("fresh"))
    environment.install(TOY)
    return environment


def test_its_benchmark_is_evaluated_by_its_evaluator(fresh: Environment) -> None:
    words = ("evaluate", "--dataset", "greetings:all", "--response-column", "answer", "--json")
    result: dict[str, Any] = json.loads(fresh.tunecheck(*words))
    assert (result["rows"], result["metrics"]["greets.binary_aggregate"]) == (2, 1.0)


def test_its_option_prints_a_line_or_a_fact(fresh: Environment) -> None:
    words = ("evaluate", "--dataset", "greetings:all", "--response-column", "answer", "--find-person")
    assert fresh.tunecheck(*words, "Ada").splitlines().count("Ada: greeted") == 1
    assert json.loads(fresh.tunecheck(*words, "Eve", "--json"))["found"] is False
    assert "--find-person is empty" in fresh.tunecheck(*words, "", exit_code=2)
    assert "--find-person PERSON" in fresh.tunecheck("evaluate", "--help-all")


def test_its_command_runs(fresh: Environment) -> None:
    assert fresh.tunecheck("greetings", "show", "bob") == "My name is Bob. Say hello.\n"
    assert "show  Print the benchmark's rows." in fresh.tunecheck("greetings", "--help")
    assert "greetings  Look at the greetings benchmark." in fresh.tunecheck("--help")


def test_its_command_reads_a_run(fresh: Environment) -> None:
    words = (
        "evaluate",
        "--dataset",
        "greetings:all",
        "--response-column",
        "answer",
        "--quiet",
        "--results-dir",
        "runs",
    )
    fresh.tunecheck(*words)
    shown = fresh.tunecheck("greetings", "show", "bob", "--run", "last", "--results-dir", "runs")
    assert shown.splitlines() == ["My name is Bob. Say hello.", "Ada pass", "Bob pass"]


def test_its_panel_stands_in_the_report(fresh: Environment) -> None:
    words = ("evaluate", "--dataset", "greetings:all", "--response-column", "answer", "--quiet")
    run = fresh.workspace / fresh.tunecheck(*words).strip()
    fresh.tunecheck("report", str(run))
    assert (TOY / "src" / "greetings" / "panel.js").read_text("utf-8") in (run / "report.html").read_text("utf-8")
    assert data_of(run / "report.html", "head")["panels"] == {"greetings": ["Ada", "Bob"]}


def test_a_run_without_it_has_no_panel_of_its(fresh: Environment) -> None:
    (fresh.workspace / "rows.jsonl").write_text('{"response": "x"}\n')
    run = fresh.tunecheck("evaluate", "--dataset", "rows.jsonl", "--response-column", "response", "--evaluators",
                          "bleu", "--mapping", "ground_truth=x", "--quiet").strip()  # fmt: skip
    fresh.tunecheck("report", run)
    assert data_of(fresh.workspace / run / "report.html", "head")["panels"] == {}


def test_it_is_listed_with_what_it_brings(fresh: Environment) -> None:
    listed = json.loads(fresh.tunecheck("plugins", "--json"))
    (brings,) = (each["brings"] for each in listed["plugins"] if each["name"] == "greetings")
    named = {kind: [each["name"] for each in brought] for kind, brought in brings.items()}
    others = {name: ["greetings"] for name in ("datasets", "options", "panels")} | {"evaluators": ["greets"]}
    assert named == {"commands": ["greetings show"], **others}


def test_the_page_on_plugins_shows_exactly_its_files() -> None:
    shown = dict(re.findall(r"`([\w./]+)`:\n\n```\w*\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL))
    files = [TOY / "pyproject.toml", *sorted((TOY / "src" / "greetings").glob("*.*"))]
    expected = {str(path.relative_to(TOY)): path.read_text("utf-8") for path in files if path.name != "__init__.py"}
    assert shown == expected
