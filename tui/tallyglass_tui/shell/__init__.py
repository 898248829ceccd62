"""The frame of every page: the app, the feeds, the palette, the help, the status line."""
