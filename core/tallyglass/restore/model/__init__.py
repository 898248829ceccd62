"""The plan as data, and as a document."""
