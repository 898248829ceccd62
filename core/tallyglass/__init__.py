"""Tallyglass, the library: look at MongoDB's counters, ObjectIds and oplog, plan a restore, and allocate ids.

``tallyglass.allocate`` hands out ids; everything else only reads.
"""

__version__ = "0.1.0"
