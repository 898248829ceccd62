"""The effect of the replay on the backup, entry by entry."""
