"""Saved oplog: slices in files, the proof that they join, reading them together with the live oplog, and saving
more."""
