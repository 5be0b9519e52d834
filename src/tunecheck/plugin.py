"""The core's own commands, evaluators, endpoint kinds and formats, registered like those of any other package."""

from tunecheck.plugins import Extension, Plugin

PLUGIN = Plugin(
    "core",
    "The core: evaluate, compare, select, report.",
    command_groups={
        "datasets": "Make, author, fetch, check and audit data sets, and export failed rows.",
        "endpoints": "Try endpoints out.",
        "judge": "See how far a judge agrees with people.",
    },
    commands={
        "evaluate": Extension(
            "tunecheck.cli._evaluate.command:evaluate", "Ask an endpoint every row of a data set and judge its answers."
        ),
        "score": Extension(
            "tunecheck.cli._evaluate.command:score", "Judge a finished run's recorded answers with other evaluators."
        ),
        "runs": Extension("tunecheck.cli._runs:runs", "List runs, the oldest first."),
        "verify": Extension("tunecheck.cli._verify:verify", "Check that runs are complete and unchanged."),
        "compare": Extension(
            "tunecheck.cli._compare:compare",
            "Compare runs row by row: what improved, what got worse, and how sure that is.",
        ),
        "select": Extension("tunecheck.cli._select:select", "Choose which of several runs to ship."),
        "report": Extension("tunecheck.cli._report:report", "Write a run's report: one HTML file that loads nothing."),
        "view": Extension("tunecheck.cli._report:view", "Show the reports of all runs in a browser."),
        "datasets convert": Extension("tunecheck.cli._datasets:convert", "Convert a data set of another form."),
        "datasets check": Extension(
            "tunecheck.cli._datasets:check", "Check ids, roles, tool definitions and ground-truth calls."
        ),
        "endpoints check": Extension(
            "tunecheck.cli._endpoints:check", "Send one small request with a tool and show the reply."
        ),
        "endpoints doctor": Extension(
            "tunecheck.cli._endpoints:doctor", "Ask questions with known answers and say how the model is served."
        ),
        "judge calibrate": Extension(
            "tunecheck.cli._judge:calibrate", "Measure agreement between a judge and human labels."
        ),
        "plugins": Extension(
            "tunecheck.cli._workspace:plugins", "List plug-ins, what they bring, and the files of this workspace."
        ),
        "trust": Extension(
            "tunecheck.cli._workspace:trust",
            "Approve files referenced by data or other people's runs until they change.",
        ),
        "init": Extension("tunecheck.cli._workspace:init", "Make a workspace with folders and example files."),
    },
    targets={
        "conversation": Extension(
            "tunecheck.episodes._target:ConversationTarget", "Have each row's conversation with an endpoint."
        )
    },
    evaluators={
        "bleu": Extension(
            "tunecheck.evaluators._text.evaluators:BleuScoreEvaluator", "BLEU of the response against the ground truth."
        ),
        "gleu": Extension(
            "tunecheck.evaluators._text.evaluators:GleuScoreEvaluator", "GLEU of the response against the ground truth."
        ),
        "meteor": Extension(
            "tunecheck.evaluators._text.evaluators:MeteorScoreEvaluator",
            "METEOR of the response against the ground truth.",
        ),
        "rouge": Extension(
            "tunecheck.evaluators._text.evaluators:RougeScoreEvaluator",
            "ROUGE of the response against the ground truth.",
        ),
        "f1_score": Extension(
            "tunecheck.evaluators._text.evaluators:F1ScoreEvaluator", "F1 of words shared with the ground truth."
        ),
        "function_call_match": Extension(
            "tunecheck.evaluators._calls.evaluators:FunctionCallMatchEvaluator",
            "Called functions equal those of the ground truth.",
        ),
        "argument_match": Extension(
            "tunecheck.evaluators._calls.evaluators:ArgumentMatchEvaluator",
            "Arguments equal those of the ground truth.",
        ),
        "match": Extension(
            "tunecheck.evaluators._calls.evaluators:MatchEvaluator",
            "Calls, names and arguments equal those of the ground truth.",
        ),
        "multi_turn_state": Extension(
            "tunecheck.evaluators._multi_turn_state:MultiTurnStateEvaluator",
            "State and results of simulators after every turn.",
        ),
        "difference": Extension(
            "tunecheck.evaluators._judges.shipped:DifferenceEvaluator",
            "A model says how the response differs from the ground truth.",
        ),
        "relevance": Extension(
            "tunecheck.evaluators._judges.shipped:RelevanceEvaluator", "A model rates how relevant the response is."
        ),
        "groundedness": Extension(
            "tunecheck.evaluators._judges.shipped:GroundednessEvaluator",
            "A model rates whether the context supports the response.",
        ),
        "call_judge": Extension(
            "tunecheck.evaluators._judges.shipped:CallJudgeEvaluator",
            "A model judges calls with more than one right answer.",
        ),
    },
    evaluator_files={
        "prompty/*.prompty": Extension(
            "tunecheck.evaluators._judges.prompty:PromptyEvaluator", "Judges with a prompt of the workspace."
        )
    },
    endpoints={
        "azure_ml": Extension("tunecheck.endpoints._azure_ml:AzureMLEndpoint", "An Azure ML online endpoint."),
        "azure_openai": Extension("tunecheck.endpoints._chat:AzureOpenAIEndpoint", "A deployment of Azure OpenAI."),
        "openai": Extension("tunecheck.endpoints._chat:OpenAIEndpoint", "Any API with OpenAI's chat completions."),
        "python": Extension("tunecheck.endpoints._python:PythonEndpoint", "A Python function."),
        "replay": Extension("tunecheck.endpoints._replay:ReplayEndpoint", "Recorded answers."),
        "simulated": Extension(
            "tunecheck.endpoints._simulated:SimulatedEndpoint", "Ground truth with seeded mistakes."
        ),
    },
    formats={
        "apertus": Extension("tunecheck.formats._families.json_calls:APERTUS_SWISS"),
        "command_r": Extension("tunecheck.formats._families.json_calls:COMMAND_R"),
        "command_r7b": Extension("tunecheck.formats._families.json_calls:COMMAND_R7B"),
        "deepseek_v3": Extension("tunecheck.formats._families.named_calls:DEEPSEEK"),
        "deepseek_v32": Extension("tunecheck.formats._families.tagged_calls:DSML"),
        "functionary": Extension("tunecheck.formats._families.named_calls:FUNCTIONARY"),
        "functiongemma": Extension("tunecheck.formats._families.tagged_calls:FUNCTION_GEMMA"),
        "gemma3": Extension("tunecheck.formats._families.python_calls:GEMMA_3"),
        "gemma4": Extension("tunecheck.formats._families.tagged_calls:GEMMA_4"),
        "gigachat": Extension("tunecheck.formats._families.json_calls:GIGACHAT"),
        "glaive": Extension("tunecheck.formats._families.named_calls:GLAIVE"),
        "glm": Extension("tunecheck.formats._families.tagged_calls:GLM"),
        "gorilla": Extension("tunecheck.formats._families.python_calls:GORILLA"),
        "granite": Extension("tunecheck.formats._families.json_calls:GRANITE"),
        "granite_20b": Extension("tunecheck.formats._families.json_calls:GRANITE_20B"),
        "harmony": Extension("tunecheck.formats._families.named_calls:HARMONY_CALLS"),
        "hermes": Extension("tunecheck.formats._families.json_calls:HERMES"),
        "hunyuan_3": Extension("tunecheck.formats._families.tagged_calls:HUNYUAN_3"),
        "internlm": Extension("tunecheck.formats._families.json_calls:INTERNLM"),
        "invoke": Extension("tunecheck.formats._families.tagged_calls:INVOKE"),
        "jamba": Extension("tunecheck.formats._families.json_calls:JAMBA"),
        "json": Extension("tunecheck.formats._families.python_calls:BARE_JSON"),
        "kimi_k2": Extension("tunecheck.formats._families.named_calls:KIMI_K2"),
        "kimi_k3": Extension("tunecheck.formats._families.tagged_calls:KIMI_K3_CALLS"),
        "lfm2": Extension("tunecheck.formats._families.python_calls:LFM2"),
        "llama": Extension("tunecheck.formats._families.named_calls:LLAMA"),
        "llama_function": Extension("tunecheck.formats._families.named_calls:LLAMA_FUNCTION"),
        "longcat": Extension("tunecheck.formats._families.json_calls:LONGCAT_FLASH"),
        "minicpm3": Extension("tunecheck.formats._families.python_calls:MINICPM_3"),
        "minicpm5": Extension("tunecheck.formats._families.tagged_calls:MINICPM"),
        "minimax_m2": Extension("tunecheck.formats._families.tagged_calls:MINIMAX_M2"),
        "minimax_m3": Extension("tunecheck.formats._families.tagged_calls:MINIMAX_M3"),
        "mistral": Extension("tunecheck.formats._families.named_calls:MISTRAL_CALLS"),
        "muse": Extension("tunecheck.formats._families.tagged_calls:MUSE_CALLS"),
        "nemotron": Extension("tunecheck.formats._families.json_calls:NEMOTRON"),
        "nexusraven": Extension("tunecheck.formats._families.python_calls:NEXUSRAVEN"),
        "olmo3": Extension("tunecheck.formats._families.python_calls:OLMO_3"),
        "phi4": Extension("tunecheck.formats._families.json_calls:PHI4"),
        "pythonic": Extension("tunecheck.formats._families.python_calls:PYTHONIC"),
        "qwen2.5_coder": Extension("tunecheck.formats._families.json_calls:QWEN_CODER_TOOLS"),
        "qwen3_coder": Extension("tunecheck.formats._families.tagged_calls:QWEN3_CODER"),
        "qwen_agent": Extension("tunecheck.formats._families.named_calls:QWEN_AGENT"),
        "react": Extension("tunecheck.formats._families.named_calls:REACT"),
        "seed_oss": Extension("tunecheck.formats._families.tagged_calls:SEED_OSS"),
        "solar": Extension("tunecheck.formats._families.named_calls:SOLAR_OPEN"),
        "step_3": Extension("tunecheck.formats._families.tagged_calls:STEP_3"),
    },
)
