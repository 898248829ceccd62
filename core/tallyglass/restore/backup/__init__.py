"""Read a backup: dump directory, archive, BSON files, data files."""
