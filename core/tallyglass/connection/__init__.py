"""What the user configures: targets, secrets, saved profiles."""
