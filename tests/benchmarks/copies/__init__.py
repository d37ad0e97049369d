"""Downloads and replicas."""
