"""The core's own commands, evaluators, endpoint kinds and formats, registered like those of any plug-in."""

from tunecheck.plugins import Extension, Plugin

_FAMILIES = """
apertus command_r command_r7b deepseek_v3 deepseek_v32 dots functionary functiongemma gemma3 gemma4 gigachat glaive
glm gorilla granite granite_20b harmony hermes hunyuan_3 hunyuan_4 inkling internlm invoke jamba json k2_horizon
kimi_k2 kimi_k3 laguna lfm2 llama llama_function longcat minicpm3 minicpm5 minimax_m2 minimax_m3 mistral muse
nemotron nexusraven olmo3 phi4 plamo3 pythonic qwen2.5_coder qwen3_coder qwen_agent react seed_oss solar step_3
""".split()
"""The model families with a call format, by their names in `formats/families.toml`."""

_COMMANDS = {
    "init": ("tunecheck.cli._workspace:init", "Make a workspace with folders and example files."),
    "check": ("tunecheck.cli._check:check", "Check a data set or an endpoint before a run."),
    "evaluate": ("tunecheck.cli._evaluate.command:evaluate", "Send rows to an endpoint and judge its answers."),
    "compare": ("tunecheck.cli._runs:compare", "Compare runs row by row and decide which to ship."),
    "report": ("tunecheck.cli._runs:report", "Write a run's report: one self-contained HTML file."),
    "view": ("tunecheck.cli._runs:view", "Show the reports of all runs in a browser."),
    "select": ("tunecheck.cli._runs:select", "Choose which of several runs to ship."),
    "score": ("tunecheck.cli._evaluate.command:score", "Judge a finished run's answers with other evaluators."),
    "runs": ("tunecheck.cli._runs:runs", "List, show, verify or remove runs."),
    "plugins": ("tunecheck.cli._workspace:plugins", "List plug-ins and their extensions."),
    "trust": ("tunecheck.cli._workspace:trust", "Approve files to which data or other people's runs refer."),
    "endpoints list": ("tunecheck.cli._workspace:list_endpoints", "List the workspace's endpoints."),
    "datasets convert": ("tunecheck.cli._workspace:convert", "Convert training files and evals to a data set."),
    "judge calibrate": ("tunecheck.cli._judge:calibrate", "Measure agreement between a judge and human labels."),
}

_EVALUATORS = {
    "bleu": ("tunecheck.evaluators._text:BleuScoreEvaluator", "BLEU of the response against the ground truth."),
    "gleu": ("tunecheck.evaluators._text:GleuScoreEvaluator", "GLEU of the response against the ground truth."),
    "meteor": ("tunecheck.evaluators._text:MeteorScoreEvaluator", "METEOR of the response against the ground truth."),
    "rouge": ("tunecheck.evaluators._text:RougeScoreEvaluator", "ROUGE of the response against the ground truth."),
    "f1_score": ("tunecheck.evaluators._text:F1ScoreEvaluator", "F1 of words shared with the ground truth."),
    "function_call_match": ("tunecheck.evaluators._calls:FunctionCallMatchEvaluator", "Called functions are right."),
    "argument_match": ("tunecheck.evaluators._calls:ArgumentMatchEvaluator", "Arguments are right."),
    "match": ("tunecheck.evaluators._calls:MatchEvaluator", "Calls, names and arguments are right."),
    "multi_turn_state": ("tunecheck.evaluators._multi_turn_state:MultiTurnStateEvaluator", "State after every turn."),
    "difference": ("tunecheck.evaluators._judges.shipped:DifferenceEvaluator", "A model names the differences."),
    "relevance": ("tunecheck.evaluators._judges.shipped:RelevanceEvaluator", "A model rates the response's relevance."),
    "groundedness": ("tunecheck.evaluators._judges.shipped:GroundednessEvaluator", "Is the response supported?"),
    "call_judge": ("tunecheck.evaluators._judges.shipped:CallJudgeEvaluator", "A model judges the calls."),
}

PLUGIN = Plugin(
    "core",
    "The core: evaluate, compare, select, report.",
    command_groups={
        "datasets": "Make, convert, audit and export data sets.",
        "endpoints": "List endpoints.",
        "judge": "Measure agreement between a judge and human labels.",
    },
    commands={name: Extension(*each) for name, each in _COMMANDS.items()},
    converters={"openai": Extension("tunecheck.datasets._training:OPENAI", "Chat training files, also TRL's.")},
    targets={
        "conversation": Extension("tunecheck.episodes._target:ConversationTarget", "Hold each row's conversation.")
    },
    evaluators={name: Extension(*each) for name, each in _EVALUATORS.items()},
    evaluator_files={
        "prompty/*.prompty": Extension("tunecheck.evaluators._judges.prompty:PromptyEvaluator", "LLM judges by prompt.")
    },
    endpoints={
        "azure_ml": Extension("tunecheck.endpoints._chat:AzureMLEndpoint", "An Azure ML online endpoint."),
        "azure_openai": Extension("tunecheck.endpoints._chat:AzureOpenAIEndpoint", "A deployment of Azure OpenAI."),
        "openai": Extension("tunecheck.endpoints._chat:OpenAIEndpoint", "Any API with OpenAI's chat completions."),
        "python": Extension("tunecheck.endpoints._python:PythonEndpoint", "A Python function."),
        "replay": Extension("tunecheck.endpoints._replay:ReplayEndpoint", "Recorded answers."),
        "simulated": Extension(
            "tunecheck.endpoints._simulated:SimulatedEndpoint", "Simulated answers: ground truth with mistakes."
        ),
    },
    formats={name: Extension(f"tunecheck.formats._families:{name.replace('.', '_')}") for name in _FAMILIES},
)
