"""The public names of this package and their homes; `__init__.py` loads them from there."""

from ._agents import StatefulEndpoint as StatefulEndpoint, StatefulReply as StatefulReply
from ._kind import GenerationContext as GenerationContext, Kind as Kind, Scene as Scene
from ._kinds.replies import mentions as mentions
from ._kinds.scripts import scripted_test as scripted_test
from ._lenient_json import read_lenient as read_lenient
from ._model import (
    AskJudge as AskJudge,
    Definition as Definition,
    FinishedTest as FinishedTest,
    Points as Points,
    Replied as Replied,
    Say as Say,
    Score as Score,
    Step as Step,
    Steps as Steps,
    Wait as Wait,
)
from ._session import SessionStoppedError as SessionStoppedError
