"""The artifacts folder: publishing, kept snapshots, downloads."""
