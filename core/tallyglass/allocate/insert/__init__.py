"""Strategies that propose an id and insert the document with it."""
