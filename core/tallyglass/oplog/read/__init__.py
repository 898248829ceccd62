"""Read the oplog: the stream that resumes exactly, the tail, the past."""
