"""Oplog entries and index specifications as raw BSON."""
