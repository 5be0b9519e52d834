"""Register long-term memory tests of agents: commands, evaluator, endpoint kind and kinds of tests."""

from tunecheck.plugins import Extension, Plugin

PLUGIN = Plugin(
    "memory",
    "Long-term memory tests of agents.",
    command_groups={"memory": "Test an agent's long-term memory."},
    commands={
        "memory run": Extension(
            "tunecheck_memory._cli:run", "Test an agent's memory with many tests in one long conversation."
        )
    },
    evaluators={
        "memory": Extension("tunecheck_memory._evaluator:MemoryEvaluator", "What an agent remembered in a memory test.")
    },
    tables={"memory": Extension("tunecheck_memory._comparison:DATA_SETS", "The data sets of two memory runs.")},
    objections={"memory": Extension("tunecheck_memory._comparison:memory_warnings")},
    panels={"timeline": Extension("tunecheck_memory._panel:TIMELINE_PANEL", "How a run's tests were interleaved.")},
    endpoints={
        "memory_agent": Extension(
            "tunecheck_memory._agent_endpoint:MemoryAgentEndpoint", "An agent with its own memory, served over HTTP."
        )
    },
    own_kinds={
        "memory": {
            "colours": Extension("tunecheck_memory._kinds.statements:Colours"),
            "names": Extension("tunecheck_memory._kinds.statements:Names"),
            "name_list": Extension("tunecheck_memory._kinds.statements:NameList"),
            "shopping": Extension("tunecheck_memory._kinds.statements:Shopping"),
            "locations": Extension("tunecheck_memory._kinds.town:Locations"),
            "locations_directions": Extension("tunecheck_memory._kinds.town:LocationsDirections"),
            "jokes": Extension("tunecheck_memory._kinds.jokes:Jokes"),
            "sallyanne": Extension("tunecheck_memory._kinds.sallyanne:SallyAnne"),
            "kv": Extension("tunecheck_memory._kinds.recall:KeyValuePairs"),
            "chapterbreak": Extension("tunecheck_memory._kinds.chapterbreak:ChapterBreak"),
            "delayed_recall": Extension("tunecheck_memory._kinds.recall:DelayedRecall"),
            "instruction_recall": Extension("tunecheck_memory._kinds.recall:InstructionRecall"),
            "how_to_think": Extension("tunecheck_memory._kinds.instructions:HowToThink"),
            "prospective_memory": Extension("tunecheck_memory._kinds.instructions:ProspectiveMemory"),
            "conflicting_personal_info": Extension("tunecheck_memory._kinds.recall:ConflictingPersonalInfo"),
            "trigger_response": Extension("tunecheck_memory._kinds.instructions:TriggerResponse"),
            "spy_meeting": Extension("tunecheck_memory._kinds.spy_meeting:SpyMeeting"),
            "restaurant": Extension("tunecheck_memory._kinds.restaurant:Restaurant"),
        },
        "services": {
            "memory-agent": Extension("tunecheck_memory._served_agent:NoteAgent", "A small agent with its own memory.")
        },
    },
)
