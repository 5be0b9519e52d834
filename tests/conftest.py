"""Fixtures shared by all tests: real inputs and environments for the reference implementations."""

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings, strategies
from tests.foundry_azurite import azurite
from tests.reference_environments import make_environment

if TYPE_CHECKING:
    from playwright.sync_api import Browser

ROOT = Path(__file__).resolve().parent.parent

ReferenceEnvironment = Callable[..., Path]

# Hundreds of processes are started: without compiled files each would compile everything that it imports once more.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# No test depends on the clock, nor on how busy the machine is. CI draws the same examples each time, so a change is
# judged by what it changed; everybody else's runs draw new ones. `pytest checks` draws many more.
settings.register_profile("quick", deadline=None, derandomize="CI" in os.environ, max_examples=25)
settings.register_profile("thorough", settings.get_profile("quick"), max_examples=300)
settings.load_profile("quick")


@pytest.fixture(scope="session", autouse=True)
def compiled_regex_strategy() -> None:
    """Loads a part of hypothesis that it would otherwise compile in the middle of some test.

    There CPython 3.11 at times fails with "AST constructor recursion depth mismatch".
    """
    strategies.from_regex("a").validate()


@pytest.fixture(scope="session", autouse=True)
def own_configuration_folder(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Keep the tests' trusted files and signing key apart from the user's."""
    os.environ["TUNECHECK_CONFIG_DIR"] = str(tmp_path_factory.mktemp("configuration"))


@pytest.fixture
def cwd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, which is a new one."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def small(cwd: Path) -> Path:
    """The current folder, a workspace with a data set of six rows."""
    from tests.cli_parts import workspace  # few tests need what it loads

    return workspace(cwd)


@pytest.fixture
def shelf(cwd: Path) -> Path:
    """The current folder, a workspace with the simulator `Shelf`."""
    from tests.conversation_parts import shelf_workspace  # few tests need what it loads

    return shelf_workspace(cwd)


@pytest.fixture(scope="module")
def browser() -> Iterator["Browser"]:
    """A real browser; tests that need it skip where there is none."""
    from tests.report_parts import browser_at_work  # few tests need what it loads

    with browser_at_work() as browser:
        yield browser


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real inputs; tests that need it skip where it is absent."""
    folder = Path(os.environ.get("TUNECHECK_TEST_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"real inputs are not here: set TUNECHECK_TEST_DATA ({folder})")
    return folder


@pytest.fixture(scope="session")
def reference_env() -> ReferenceEnvironment:
    """`reference_env(name, *requirements)`: the python of an environment that holds these packages, made once."""
    return make_environment


@pytest.fixture(scope="session")
def blob_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """A blob store on loopback: one for all tests of uploads, whichever module they stand in."""
    if shutil.which("npm") is None:
        pytest.skip("Azurite, the blob store of these tests, is installed with npm, which is not here")
    with azurite(tmp_path_factory.mktemp("azurite")) as port:
        yield port
