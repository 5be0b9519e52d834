"""The names of this package that others may use; `__init__.py` loads them from their homes."""

from ._calls import FAULTS as FAULTS, CallEvaluator as CallEvaluator
from ._judges.answer import AnswerForm as AnswerForm, ResolvedOutput as ResolvedOutput
from ._judges.asking import (
    JudgeClient as JudgeClient,
    JudgeLoop as JudgeLoop,
    Judgement as Judgement,
    ModelConfig as ModelConfig,
    judge_endpoint as judge_endpoint,
    tokens_of as tokens_of,
)
from ._judges.prompty import (
    data_mark as data_mark,
    input_text as input_text,
    none_if_nan as none_if_nan,
    read_parameters as read_parameters,
)
from ._judges.shipped import KINDS as KINDS
from ._multi_turn_state import MODES as MODES, AnyMode as AnyMode
from ._text import (
    BleuScoreEvaluator as BleuScoreEvaluator,
    F1ScoreEvaluator as F1ScoreEvaluator,
    GleuScoreEvaluator as GleuScoreEvaluator,
    MeteorScoreEvaluator as MeteorScoreEvaluator,
    RougeScoreEvaluator as RougeScoreEvaluator,
    RougeType as RougeType,
    ScoreEvaluator as ScoreEvaluator,
    TextEvaluator as TextEvaluator,
    TextPair as TextPair,
    finite_number as finite_number,
    rouge_l as rouge_l,
    rouge_tokens as rouge_tokens,
)
