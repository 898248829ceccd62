"""What kind of deployment this is, and what this user may see of it."""
