"""Register the commands that author, audit and export data sets."""

from tunecheck.plugins import Extension, Plugin

PLUGIN = Plugin(
    "authoring",
    "Author, check, audit and export data sets.",
    data_checks={"rows": Extension("tunecheck_authoring._cli.audit:check_rows", "Ids, roles, tools, calls.")},
    commands={
        "datasets audit": Extension(
            "tunecheck_authoring._cli.audit:audit", "Find probable mistakes in a data set, with evidence."
        ),
        "datasets author": Extension(
            "tunecheck_authoring._cli.author:author",
            "Make a validated data set of conversations with simulated services.",
        ),
        "datasets export": Extension(
            "tunecheck_authoring._cli.export:export",
            "Write the rows that a run failed as training examples, grouped by cause.",
        ),
    },
    evaluator_files={
        "graders/*.json": Extension(
            "tunecheck_authoring._training.graders:GraderEvaluator", "Graders of OpenAI's Evals."
        )
    },
    converters={
        "glaive": Extension("tunecheck_authoring._training.glaive:FORM", "Raw Glaive conversations."),
        "openai-evals": Extension(
            "tunecheck_authoring._training.openai_evals:FORM", "Exports of OpenAI's hosted Evals."
        ),
        "sharegpt": Extension("tunecheck_authoring._training.sharegpt:FORM", "ShareGPT's conversations."),
        "xlam": Extension("tunecheck_authoring._training.xlam:FORM", "xLAM's questions."),
    },
)
