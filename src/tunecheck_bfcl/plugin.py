"""Register BFCL V3 with Tunecheck: data, simulated services, leaderboard verdicts."""

from tunecheck.plugins import Extension, Plugin

PLUGIN = Plugin(
    "bfcl",
    "BFCL V3: data, simulated services, leaderboard verdicts.",
    extra="bfcl",
    requires=("mpmath", "tree_sitter", "tree_sitter_java", "tree_sitter_javascript"),
    command_groups={"bfcl": "Get, run, score and show BFCL V3."},
    commands={
        "bfcl get": Extension("tunecheck_bfcl._cli:get", "Fetch BFCL's data from the package index."),
        "bfcl run": Extension("tunecheck_bfcl._cli:run", "Run BFCL V3 against an endpoint."),
        "bfcl score": Extension("tunecheck_bfcl._cli:score", "Score BFCL result files."),
        "bfcl show": Extension("tunecheck_bfcl._cli:show", "Show the ground truth of entries as a conversation."),
    },
    datasets={"bfcl": Extension("tunecheck_bfcl._data.loader:load_bfcl", "BFCL V3: `bfcl:CATEGORY`.")},
    dialects={"bfcl": Extension("tunecheck_bfcl._dialect:BfclDialect", "Conversations exactly as on the leaderboard.")},
    evaluators={
        "call_check": Extension("tunecheck_bfcl._call_check:CallCheckEvaluator", "BFCL's verdict on single-turn rows.")
    },
    sources={"scores": Extension("tunecheck_bfcl._comparison:open_scores", "BFCL's score files as runs.")},
    cluster_rules={"scenarios": Extension("tunecheck_bfcl._comparison:shared_scenarios")},
    figures={"leaderboard": Extension("tunecheck_bfcl._comparison:LEADERBOARD_FIGURES")},
    simulators={
        "GorillaFileSystem": Extension("tunecheck_bfcl._services._file_system:GorillaFileSystem"),
        "MathAPI": Extension("tunecheck_bfcl._services._math_api:MathAPI"),
        "MessageAPI": Extension("tunecheck_bfcl._services._message_api:MessageAPI"),
        "TicketAPI": Extension("tunecheck_bfcl._services._ticket_api:TicketAPI"),
        "TradingBot": Extension("tunecheck_bfcl._services._trading_bot:TradingBot"),
        "TravelAPI": Extension("tunecheck_bfcl._services._travel_api:TravelAPI"),
        "TwitterAPI": Extension("tunecheck_bfcl._services._twitter_api:TwitterAPI"),
        "VehicleControlAPI": Extension("tunecheck_bfcl._services._vehicle_control:VehicleControlAPI"),
    },
)
