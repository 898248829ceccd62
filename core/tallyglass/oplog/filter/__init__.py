"""Which entries are wanted: the filter and how it is matched."""
