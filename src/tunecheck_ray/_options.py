"""The options of `evaluate` that this package adds."""

from tunecheck.cli import RUNNING, AddedOptions, option


class RayOptions(AddedOptions):
    """Options of `--on ray`."""

    task_cpus: float | None = option(
        "With --on: CPUs that each Ray task reserves; default: 0.25.", "SHARE", RUNNING, recorded=False, least=0.01
    )
