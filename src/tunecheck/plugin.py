"""The core's own commands, evaluators, endpoint kinds and formats, registered like those of any plug-in."""

from tunecheck.plugins import Extension, Plugin

_FAMILIES = """
apertus command_r command_r7b deepseek_v3 deepseek_v32 dots functionary functiongemma gemma3 gemma4 gigachat glaive
glm gorilla granite granite_20b harmony hermes hunyuan_3 hunyuan_4 inkling internlm invoke jamba json k2_horizon
kimi_k2 kimi_k3 laguna lfm2 llama llama_function longcat minicpm3 minicpm5 minimax_m2 minimax_m3 mistral muse
nemotron nexusraven olmo3 phi4 plamo3 pythonic qwen2.5_coder qwen3_coder qwen_agent react seed_oss solar step_3
""".split()
"""The model families with a call format, by their names in `formats/families.toml`."""

_CLI, _ENDPOINTS = "tunecheck.cli", "tunecheck.endpoints"
_CALLS, _TEXT = "tunecheck.evaluators._calls", "tunecheck.evaluators._text"
_JUDGES = "tunecheck.evaluators._judges.shipped"

PLUGIN = Plugin(
    "core",
    "The core: evaluate, compare, select, report.",
    command_groups={
        "datasets": "Make, convert, audit and export data sets.",
        "endpoints": "List endpoints.",
        "judge": "Measure agreement between a judge and human labels.",
    },
    commands={
        "init": Extension(f"{_CLI}._workspace:init", "Make a workspace with folders and example files."),
        "check": Extension(f"{_CLI}._check:check", "Check a data set or an endpoint before a run."),
        "evaluate": Extension(
            f"{_CLI}._evaluate.command:evaluate", "Send a data set's rows to an endpoint and judge its answers."
        ),
        "compare": Extension(f"{_CLI}._runs:compare", "Compare runs row by row and decide which to ship."),
        "report": Extension(f"{_CLI}._runs:report", "Write a run's report: one self-contained HTML file."),
        "view": Extension(f"{_CLI}._runs:view", "Show the reports of all runs in a browser."),
        "select": Extension(f"{_CLI}._runs:select", "Choose which of several runs to ship."),
        "score": Extension(f"{_CLI}._evaluate.command:score", "Judge a finished run's answers with other evaluators."),
        "runs": Extension(f"{_CLI}._runs:runs", "List, show, verify or remove runs."),
        "plugins": Extension(f"{_CLI}._workspace:plugins", "List plug-ins and their extensions."),
        "trust": Extension(f"{_CLI}._workspace:trust", "Approve files that data or other people's runs name."),
        "endpoints list": Extension(f"{_CLI}._workspace:list_endpoints", "List the workspace's endpoints."),
        "datasets convert": Extension(f"{_CLI}._workspace:convert", "Convert training files and evals to a data set."),
        "judge calibrate": Extension(f"{_CLI}._judge:calibrate", "Measure agreement between a judge and human labels."),
    },
    converters={"openai": Extension("tunecheck.datasets._training:OPENAI", "Chat training files, also TRL's.")},
    targets={
        "conversation": Extension(
            "tunecheck.episodes._target:ConversationTarget", "Hold each row's conversation with an endpoint."
        )
    },
    evaluators={
        "bleu": Extension(f"{_TEXT}:BleuScoreEvaluator", "BLEU of the response against the ground truth."),
        "gleu": Extension(f"{_TEXT}:GleuScoreEvaluator", "GLEU of the response against the ground truth."),
        "meteor": Extension(f"{_TEXT}:MeteorScoreEvaluator", "METEOR of the response against the ground truth."),
        "rouge": Extension(f"{_TEXT}:RougeScoreEvaluator", "ROUGE of the response against the ground truth."),
        "f1_score": Extension(f"{_TEXT}:F1ScoreEvaluator", "F1 of words shared with the ground truth."),
        "function_call_match": Extension(
            f"{_CALLS}:FunctionCallMatchEvaluator", "Called functions equal those of the ground truth."
        ),
        "argument_match": Extension(f"{_CALLS}:ArgumentMatchEvaluator", "Arguments equal those of the ground truth."),
        "match": Extension(f"{_CALLS}:MatchEvaluator", "Calls, names and arguments equal those of the ground truth."),
        "multi_turn_state": Extension(
            "tunecheck.evaluators._multi_turn_state:MultiTurnStateEvaluator",
            "State and results of simulators after every turn.",
        ),
        "difference": Extension(
            f"{_JUDGES}:DifferenceEvaluator", "A model says how the response differs from the ground truth."
        ),
        "relevance": Extension(f"{_JUDGES}:RelevanceEvaluator", "A model rates how relevant the response is."),
        "groundedness": Extension(
            f"{_JUDGES}:GroundednessEvaluator", "A model rates whether the context supports the response."
        ),
        "call_judge": Extension(
            f"{_JUDGES}:CallJudgeEvaluator", "A model judges calls with more than one right answer."
        ),
    },
    evaluator_files={
        "prompty/*.prompty": Extension(
            "tunecheck.evaluators._judges.prompty:PromptyEvaluator", "LLM judges with a prompt file of the workspace."
        )
    },
    endpoints={
        "azure_ml": Extension(f"{_ENDPOINTS}._chat:AzureMLEndpoint", "An Azure ML online endpoint."),
        "azure_openai": Extension(f"{_ENDPOINTS}._chat:AzureOpenAIEndpoint", "A deployment of Azure OpenAI."),
        "openai": Extension(f"{_ENDPOINTS}._chat:OpenAIEndpoint", "Any API with OpenAI's chat completions."),
        "python": Extension(f"{_ENDPOINTS}._python:PythonEndpoint", "A Python function."),
        "replay": Extension(f"{_ENDPOINTS}._replay:ReplayEndpoint", "Recorded answers."),
        "simulated": Extension(
            f"{_ENDPOINTS}._simulated:SimulatedEndpoint", "Simulated answers: ground truth with random mistakes."
        ),
    },
    formats={name: Extension(f"tunecheck.formats._families:{name.replace('.', '_')}") for name in _FAMILIES},
)
