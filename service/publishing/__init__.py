"""Writing an artifacts folder: snapshots are published, pruned and withdrawn."""
