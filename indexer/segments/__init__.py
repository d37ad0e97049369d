"""Segments: tokens and vectors of the texts of services, kept by hash for the next builds."""
