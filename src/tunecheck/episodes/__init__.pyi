"""The names of this package that others may use; `__init__.py` loads them from their homes."""

from ._decoding import (
    NO_CALL as NO_CALL,
    CallMode as CallMode,
    at_most_max_calls as at_most_max_calls,
    decode_entries as decode_entries,
    decode_step as decode_step,
    mode_of as mode_of,
    source_text as source_text,
)
from ._dialects import (
    BenchmarkDialect as BenchmarkDialect,
    Dialect as Dialect,
    TextDialect as TextDialect,
    ToolsDialect as ToolsDialect,
    Wording as Wording,
    answer_step as answer_step,
    answer_text as answer_text,
    benchmark_of as benchmark_of,
    find_benchmark as find_benchmark,
)
from ._episode import (
    ABSENT as ABSENT,
    BY_STEP as BY_STEP,
    OUTPUT_COLUMNS as OUTPUT_COLUMNS,
    REASONING as REASONING,
    UNKNOWN as UNKNOWN,
    Answered as Answered,
    Called as Called,
    Change as Change,
    Episode as Episode,
    EpisodeTurn as EpisodeTurn,
    Path as Path,
    Said as Said,
    StateSeen as StateSeen,
    TurnEnded as TurnEnded,
    changes as changes,
    deviations as deviations,
    leaves as leaves,
    path_text as path_text,
)
from ._playing import (
    Attempt as Attempt,
    GroundTruth as GroundTruth,
    Player as Player,
    Services as Services,
    play as play,
)
from ._scenario import (
    Message as Message,
    Offer as Offer,
    RecordedModel as RecordedModel,
    Scenario as Scenario,
    Tool as Tool,
    configuration_of as configuration_of,
    held_out_of as held_out_of,
    read_scenario as read_scenario,
    simulators_of as simulators_of,
    step_row as step_row,
)
from ._state_check import (
    INVALID_ENTRY as INVALID_ENTRY,
    PASSED as PASSED,
    Given as Given,
    Results as Results,
    RowVerdict as RowVerdict,
    StateCheck as StateCheck,
    Turn as Turn,
    made_results as made_results,
    missing_result as missing_result,
    no_call as no_call,
    value_text as value_text,
    wrong_state as wrong_state,
)
from ._target import STEP_LIMIT as STEP_LIMIT, ConversationTarget as ConversationTarget
