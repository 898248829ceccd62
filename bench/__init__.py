"""Measurements, each printing a table and JSON: ``python -m bench [name ...]``."""
