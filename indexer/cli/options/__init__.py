"""Options that several commands share: sources, ranking, and the engine."""
