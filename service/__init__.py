"""The discovery service: opens a snapshot and answers requests from it."""
