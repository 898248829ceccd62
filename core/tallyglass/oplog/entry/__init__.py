"""One oplog entry: walk its bytes, read its head, render and describe it."""
