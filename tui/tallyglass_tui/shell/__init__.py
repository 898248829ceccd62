"""What every page stands in: the app, the feeds, the palette, the help, the status line."""
