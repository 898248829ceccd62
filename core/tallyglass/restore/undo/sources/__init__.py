"""Where the documents as they were at the point come from: pre-images, or a backup and the oplog."""
