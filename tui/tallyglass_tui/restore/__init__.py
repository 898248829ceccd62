"""The Restore page: draft, feed, choices and the plan's items."""
