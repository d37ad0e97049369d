"""Probes: what endpoints answered to an unpaid request, and the facts that follow from it.

Observations are lines of files that probers write; `ratecard probe` is one of these.
"""
