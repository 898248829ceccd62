"""Reads from MongoDB: the gateway, its client, the codec, the driver's errors."""
