"""Probing: visiting listed endpoints unpaid, and writing what they answer as observations.

Neither a build nor the service probes; `ratecard probe` does.
"""
