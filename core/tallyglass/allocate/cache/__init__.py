"""Ids from memory, fetched ahead in ranges."""
