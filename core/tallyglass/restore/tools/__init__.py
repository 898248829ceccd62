"""The MongoDB Database Tools and mongosh: versions, URIs, quoting, helpers."""
