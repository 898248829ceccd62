"""Predict what mongorestore will do with the backup and the oplog, and prove that the backup is true."""
