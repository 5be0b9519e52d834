"""Evaluators: judge an answer, row by row.

_base               the base class and the description of a metric
_calls              function calls: functions, arguments, both
_text               BLEU, GLEU, METEOR, ROUGE and F1
_judges             language models as judges: prompts, requests, replies
_multi_turn_state   state and results after every turn of a conversation
"""

from tunecheck._lazy import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
