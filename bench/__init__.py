"""Benchmarks. Each prints a table and JSON: ``python -m bench [name ...]``."""
