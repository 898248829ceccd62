"""Which backups there are, and from when to when every second can be restored from them and the oplog."""
