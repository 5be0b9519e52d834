"""Tells prose at once: most texts hold nothing that begins a call or a thought, and need no table of families."""

_UNBRACKETED = (
    *("functools", "[TOOL_CALLS]", "to=functions.", "✿FUNCTION✿", "Call:", "Action:", "analysis"),
    *("[THINK]", "[/THINK]", "Here are my reasoning steps:", "[BEGIN FINAL RESPONSE]"),
)
"""Every mark of the known families holds `<`, three backticks or one of these."""


def may_hold_calls(text: str, *, gated: bool) -> bool:
    """Whether anything in a text may begin a call, or a thought; `gated`: the row's tools are known."""
    if text.lstrip()[:1] in ("{", "[") or "tool_uses" in text:
        return True
    if gated and ("{" in text or "(" in text):
        return True
    return may_hold_marks(text)


def may_hold_marks(text: str) -> bool:
    """Whether any mark of the known families may stand in a text, of calls or of thoughts."""
    if "<" in text or "```" in text:
        return True
    for mark in _UNBRACKETED:  # noqa: SIM110 - any() takes twice as long
        if mark in text:
            return True
    return False
