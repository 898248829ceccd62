"""Follow counters live: collections, trackers, views, pools and drift."""
