"""`tunecheck evaluate`, which is `python evaluate.py`, and `tunecheck score`."""

from tunecheck.cli._evaluate.options import Options, ScoreOptions, evaluate_options
from tunecheck.cli._options import Invocation, command


@command(evaluate_options())
def evaluate(options: Options, invocation: Invocation) -> int:
    """Send every row of a data set to an endpoint, and judge its answers.

    Without --endpoint and --response-column, the data's YAML file names what answers, else the simulated endpoint
    answers. Without --evaluators, that file names the evaluators, else they are function_call_match, argument_match
    and match.

    Exit codes:
    0 done
    1 the run failed or was interrupted, or every row has an error
    2 wrong use or configuration
    3 done, but a gate was not met
    4 done, and a gate could not be decided with these rows

    Ctrl-C stops cleanly and prints the command that resumes; a second Ctrl-C stops at once.
    """
    from tunecheck.cli._evaluate.run import run_command

    return run_command(options, invocation)


@command(ScoreOptions)
def score(options: ScoreOptions, invocation: Invocation) -> int:
    """Judge a finished run's recorded answers with other evaluators, in a new run.

    It calls only judges and embedding models, not the endpoint.

    Exit codes: the same as those of evaluate.
    """
    from tunecheck.cli._evaluate.run import run_command

    return run_command(Options.of_score(options), invocation)
