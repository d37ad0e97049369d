"""Directories of MPP: services with their endpoints, and payments by method and intent."""
