"""When a counter runs out: from samples to a date with a band."""
