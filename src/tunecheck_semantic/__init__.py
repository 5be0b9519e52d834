"""Similarity of texts by embeddings and BERTScore, with a local model or an embeddings endpoint."""

from tunecheck.plugins import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
