"""Example programs. Run each with ``python -m examples.NAME [URI]``."""
