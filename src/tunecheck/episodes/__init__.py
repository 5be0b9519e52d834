"""Conversations of several turns with simulators behind a model's calls.

`_target.ConversationTarget` has them, `_output` writes BFCL's result files of them; the checks of BFCL decode answers
(`_decoding`, `_bfcl_text`) and make calls (`_nested`) as they do.
"""
