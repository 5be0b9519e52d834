"""The public names of this package and their homes; `__init__.py` loads them from there."""

from ._agent_endpoint import MemoryAgentEndpoint as MemoryAgentEndpoint
from ._agents import StatefulEndpoint as StatefulEndpoint, StatefulReply as StatefulReply
from ._configuration import (
    Configuration as Configuration,
    find_kind as find_kind,
    read_configuration as read_configuration,
)
from ._evaluation import MemoryOutcome as MemoryOutcome, MemoryPlan as MemoryPlan, run_memory as run_memory
from ._evaluator import MemoryEvaluator as MemoryEvaluator, Undecided as Undecided, judge_by_words as judge_by_words
from ._judging import EndpointJudge as EndpointJudge
from ._kind import (
    AskJudge as AskJudge,
    Definition as Definition,
    FinishedTest as FinishedTest,
    GenerationContext as GenerationContext,
    Kind as Kind,
    Points as Points,
    Replied as Replied,
    Say as Say,
    Scene as Scene,
    Score as Score,
    Step as Step,
    Steps as Steps,
    Wait as Wait,
)
from ._kinds.instructions import ProspectiveMemory as ProspectiveMemory
from ._kinds.jokes import Jokes as Jokes
from ._kinds.lists import Shopping as Shopping
from ._kinds.replies import mentions as mentions
from ._kinds.restaurant import Restaurant as Restaurant
from ._kinds.restaurant_words import WordJudge as WordJudge
from ._kinds.scripts import scripted_test as scripted_test
from ._kinds.statements import Colours as Colours
from ._lenient_json import read_lenient as read_lenient
from ._session import SessionStoppedError as SessionStoppedError
from ._target import MemoryTarget as MemoryTarget
from ._tokens import Tokenizer as Tokenizer, load_tokenizer as load_tokenizer
from ._wording import (
    FillerPool as FillerPool,
    FillerWording as FillerWording,
    SessionWording as SessionWording,
    load_filler as load_filler,
    load_wording as load_wording,
)
