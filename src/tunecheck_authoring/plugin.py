"""Register the commands that author, audit and export data sets."""

from tunecheck.plugins import Extension, Plugin

PLUGIN = Plugin(
    "authoring",
    "Author, check, audit and export data sets.",
    data_checks={"rows": Extension("tunecheck_authoring._cli:check_rows", "Ids, roles, tools, calls.")},
    commands={
        "datasets audit": Extension("tunecheck_authoring._cli:audit", "Find probable mistakes in a data set."),
        "datasets author": Extension("tunecheck_authoring._cli:author", "Make a test set with simulated services."),
        "datasets export": Extension("tunecheck_authoring._cli:export", "Write failed rows as training examples."),
    },
    evaluator_files={
        "graders/*.json": Extension(
            "tunecheck_authoring._training.graders:GraderEvaluator", "Graders of OpenAI's Evals."
        )
    },
    converters={
        "glaive": Extension("tunecheck_authoring._training.other_forms:GLAIVE", "Raw Glaive conversations."),
        "openai-evals": Extension("tunecheck_authoring._training.openai_evals:FORM", "Exports of OpenAI's Evals."),
        "sharegpt": Extension("tunecheck_authoring._training.other_forms:SHAREGPT", "ShareGPT's conversations."),
        "xlam": Extension("tunecheck_authoring._training.other_forms:XLAM", "xLAM's questions."),
    },
)
