"""What the oplog says of itself and of its collections: complete from where to where, created and dropped when."""
