"""Pages to pass on: one document of titled blocks, written as a single HTML file or as Markdown."""
