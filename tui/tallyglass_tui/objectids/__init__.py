"""The ObjectIds page."""
