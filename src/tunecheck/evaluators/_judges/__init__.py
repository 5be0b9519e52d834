"""Evaluators that ask a model: prompt files, their answers, repairs, samples."""
