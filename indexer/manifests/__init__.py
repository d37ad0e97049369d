"""Manifests of hosts under `/.well-known/`: their entries as resources."""
