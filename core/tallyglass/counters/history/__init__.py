"""What a counter was before: samples from the oplog, from ObjectIds and from the store."""
