"""Ranking by meaning: the encoder of queries, vectors of documents, and hybrid scores."""
