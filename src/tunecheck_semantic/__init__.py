"""Embeddings of texts: by a local model, run here, or by an embeddings endpoint."""
