"""Plan a point-in-time restore: prove it, then emit the exact commands. Never runs anything."""
