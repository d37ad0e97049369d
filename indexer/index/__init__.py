"""Files compiled of the derived columns: postings, lexicon, vectors, and the tables."""
