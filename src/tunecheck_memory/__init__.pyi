"""The public names of this package and their homes; `__init__.py` loads them from there."""

from ._agents import StatefulEndpoint as StatefulEndpoint, StatefulReply as StatefulReply
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
from ._kinds.replies import mentions as mentions
from ._kinds.scripts import scripted_test as scripted_test
from ._lenient_json import read_lenient as read_lenient
from ._session import SessionStoppedError as SessionStoppedError
