"""Look at the oplog: follow it, filter it, and tell what a person did."""
