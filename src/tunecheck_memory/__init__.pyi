"""The public names of this package and the modules that define them; `__init__.py` loads them on first use."""

from ._agent_endpoint import MemoryAgentEndpoint as MemoryAgentEndpoint
from ._agents import (
    RememberingAgent as RememberingAgent,
    StatefulEndpoint as StatefulEndpoint,
    StatefulReply as StatefulReply,
)
from ._benchmark import (
    Configuration as Configuration,
    make_definitions as make_definitions,
    read_configuration as read_configuration,
    write_definitions as write_definitions,
)
from ._evaluation import (
    MemoryOutcome as MemoryOutcome,
    MemoryPlan as MemoryPlan,
    MemoryTarget as MemoryTarget,
    run_memory as run_memory,
)
from ._evaluator import MemoryEvaluator as MemoryEvaluator, judge_by_words as judge_by_words
from ._events import (
    Begin as Begin,
    Consult as Consult,
    Deregister as Deregister,
    Effect as Effect,
    End as End,
    Jump as Jump,
    Outcome as Outcome,
    Register as Register,
    ResetAgent as ResetAgent,
    Send as Send,
    SuiteReset as SuiteReset,
    Waiting as Waiting,
)
from ._judging import EndpointJudge as EndpointJudge
from ._kind import (
    AskJudge as AskJudge,
    FinishedTest as FinishedTest,
    GenerationContext as GenerationContext,
    Kind as Kind,
    MemoryTest as MemoryTest,
    Points as Points,
    Replied as Replied,
    Say as Say,
    Scene as Scene,
    Score as Score,
    Step as Step,
    Steps as Steps,
    Wait as Wait,
    find_kind as find_kind,
)
from ._kinds.instructions import ProspectiveMemory as ProspectiveMemory
from ._kinds.jokes import Jokes as Jokes
from ._kinds.replies import UndecidedError as UndecidedError, mentions as mentions, read_lenient as read_lenient
from ._kinds.restaurant import Restaurant as Restaurant
from ._kinds.scripts import scripted_test as scripted_test
from ._kinds.statements import Colours as Colours, Shopping as Shopping
from ._run_files import EventType as EventType
from ._scheduler import Scheduler as Scheduler, Settings as Settings, Test as Test, schedule as schedule
from ._session import SessionStoppedError as SessionStoppedError
from ._tokens import Tokenizer as Tokenizer, load_tokenizer as load_tokenizer
from ._wording import (
    FillerPool as FillerPool,
    FillerWording as FillerWording,
    Menu as Menu,
    SessionWording as SessionWording,
    load_filler as load_filler,
    load_wording as load_wording,
)
