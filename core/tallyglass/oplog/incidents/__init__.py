"""Incidents: runs of entries and single operations, grouped."""
