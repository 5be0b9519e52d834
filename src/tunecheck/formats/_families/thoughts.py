"""How families mark their reasoning."""

from tunecheck.formats._profiles import Thought

THINK = Thought("<think>", ("</think>",))
SEED = Thought("<seed:think>", ("</seed:think>",))
MINIMAX = Thought("<mm:think>", ("</mm:think>",))
LONGCAT = Thought("<longcat_think>", ("</longcat_think>",))
HUNYUAN = Thought("<think:opensource>", ("</think:opensource>",))
MISTRAL = Thought("[THINK]", ("[/THINK]",))
COMMAND = Thought("<|START_THINKING|>", ("<|END_THINKING|>",))
MINICPM = Thought("<|thought_start|>", ("<|thought_end|>",))
APERTUS = Thought("<|inner_prefix|>", ("<|inner_suffix|>",))
KIMI_K3 = Thought("<|open|>think<|sep|>", ("<|close|>think<|sep|>",))
GEMMA = Thought("<|channel>thought\n", ("<channel|>",))
SOLAR = Thought("<|think|>", ("<|end|>",), lone=False)
MUSE = Thought("to=self<|message|>", ("<|end|>", "<|eom|>", "<|start|>"), lone=False)
APRIEL = Thought("Here are my reasoning steps:", ("[BEGIN FINAL RESPONSE]",), leading=True)
HARMONY = Thought("<|channel|>analysis<|message|>", ("<|end|>", "<|start|>", "<|channel|>"), lone=False)
HARMONY_STRIPPED = Thought("analysis", ("assistantcommentary", "assistantfinal"), lone=False, leading=True)

THOUGHTS = (
    *(THINK, SEED, MINIMAX, LONGCAT, HUNYUAN, MISTRAL, COMMAND, MINICPM, APERTUS),
    *(KIMI_K3, GEMMA, SOLAR, MUSE, APRIEL, HARMONY, HARMONY_STRIPPED),
)
"""All of them; none is written unless it is meant."""

ANSWERS = ("<|start|>assistant<|channel|>final<|message|>", "<|channel|>final<|message|>", "<|START_RESPONSE|>")
"""What announces the answer itself, after a thought or without one."""
