"""The public names of this package and their homes; `__init__.py` loads them from there."""

from ._conversations import RowAnswers as RowAnswers
from ._evaluator import ServedEvaluator as ServedEvaluator
from ._server import (
    Asked as Asked,
    BadRequestError as BadRequestError,
    ChatSource as ChatSource,
    Middleware as Middleware,
    ModelServer as ModelServer,
    ProblemError as ProblemError,
    ReplyStore as ReplyStore,
    ServerOptions as ServerOptions,
    Service as Service,
    json_reply as json_reply,
    key_from as key_from,
    make_app as make_app,
    read_object as read_object,
    run_server as run_server,
)
