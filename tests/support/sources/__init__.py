"""Sources of a build: records, feeds, payments."""
