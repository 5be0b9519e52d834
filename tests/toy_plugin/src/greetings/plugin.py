"""Everything that this package brings to Tunecheck; nothing else of it is loaded before it is used."""

from tunecheck.plugins import Extension, Plugin

PLUGIN = Plugin(
    "greetings",
    "A benchmark of greetings.",
    command_groups={"greetings": "Look at the greetings benchmark."},
    commands={"greetings show": Extension("greetings.commands:show", "Print the benchmark's rows.")},
    datasets={"greetings": Extension("greetings.rows:load_greetings", "People to greet: `greetings:all`.")},
    evaluators={"greets": Extension("greetings.evaluator:GreetsByName", "The answer greets a person by name.")},
    options={"greetings": Extension("greetings.options:GreetingsOptions", "`evaluate --find-person`.")},
    panels={"greetings": Extension("greetings.panel:GREETINGS_PANEL", "The people whom the model greeted.")},
)
