"""What the user gave: a target, its secrets, saved profiles."""
