"""Rehearse a restore on a spare server, measure it, and throw it away. The only part of restore that runs anything."""
