"""Evaluators that ask a model: prompt files, their answers, repairs, samples.

`prompty` is the base of all, `shipped` are the package's own; `asking` asks the model, repairs and combines several
judgements, `answer` reads them.
"""
