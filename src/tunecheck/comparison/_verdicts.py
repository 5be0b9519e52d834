"""The verdicts on a metric's difference, and the remark on one that is not significant after correction."""

from typing import Literal

Verdict = Literal["better", "worse", "no difference shown", "too little data", "judges differ"]

BETTER: Verdict = "better"
WORSE: Verdict = "worse"
NO_DIFFERENCE: Verdict = "no difference shown"
TOO_LITTLE: Verdict = "too little data"
JUDGES_DIFFER: Verdict = "judges differ"

ALONE = "shown if it were the only test; among all of them it can be chance"
