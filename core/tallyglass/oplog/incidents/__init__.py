"""What people did: runs of entries and single acts, grouped."""
