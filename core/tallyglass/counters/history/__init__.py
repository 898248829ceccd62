"""Past values of counters: from the oplog, from ObjectIds and from the store."""
