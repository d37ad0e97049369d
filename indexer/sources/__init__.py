"""Files, folders and URLs to records with their places; rejects."""
