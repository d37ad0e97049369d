"""The search index: postings, lexicon, names and vectors, compiled from the derived columns."""
