"""Saved oplog: slices in files, the proof that they join, reading them as one oplog with the live one, saving more."""
