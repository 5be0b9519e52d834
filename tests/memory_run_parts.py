"""Memory runs for tests: names tell parts of the plan from parts of the run."""

from typing import Any

from tunecheck.endpoints import Endpoint
from tunecheck_memory import MemoryOutcome, MemoryPlan, run_memory

_OF_PLAN = {*MemoryPlan.__struct_fields__}


def run_benchmark(configuration: str, endpoint: Endpoint, **more: Any) -> MemoryOutcome:
    """A memory run with fields of `MemoryPlan` and arguments of `evaluate`; without a judge, it is unjudged."""
    more = {"unjudged": "judge" not in more} | more
    own = {name: value for name, value in more.items() if name in _OF_PLAN}
    rest = {name: value for name, value in more.items() if name not in _OF_PLAN}
    return run_memory(MemoryPlan(configuration=configuration, endpoint=endpoint, **own), **rest)
