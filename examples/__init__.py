"""Short programs that take ids from MongoDB. Each runs alone: ``python -m examples.NAME [URI]``."""
