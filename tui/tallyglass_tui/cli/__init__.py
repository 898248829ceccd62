"""One module per command. Each imports what it needs only when it runs, so that a small command starts quickly."""
