"""A model that is served right: it answers all of the doctor's questions; and servers that it is served by."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.scripted_rules import ScriptSource, read_script

from tunecheck.endpoints import Diagnosis, examine, load_endpoint

COUNT = " ".join(map(str, range(1, 201)))
RULES = Path(__file__).with_name("doctor_rules.yaml").read_text("utf-8")


def model(folder: Path, top: str = "", rules: str = "") -> ScriptSource:
    """The model behind a server with these keys of a script, and these rules before the right ones."""
    path = folder / "script.yaml"
    path.write_text(f"{top}\nrules:\n{rules}{RULES.replace('COUNT', COUNT)}", "utf-8")
    return ScriptSource(read_script(path))


async def verdicts(url: str, **definition: Any) -> Mapping[str, Diagnosis]:
    """The doctor's findings at this address, by check."""
    written = {"kind": "openai", "url": f"{url}/v1", "model": "m", "retries": 0, **definition}
    found = await examine(load_endpoint(written), written)
    return dict(found.findings)
