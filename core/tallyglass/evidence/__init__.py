"""What the server itself knows of who wrote: its log, profile, sessions, operations and audit log. Only reads."""
