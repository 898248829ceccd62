"""Rehearse a restore on a temporary spare, and measure it. The only part of restore that runs anything."""
