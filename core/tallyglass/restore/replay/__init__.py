"""What the replay will do to the backup, entry by entry."""
