"""The artifacts folder: serving, kept snapshots, changes between them, downloads, following."""
