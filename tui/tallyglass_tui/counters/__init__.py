"""The Counters page: page, cells, facts and its own widgets."""
