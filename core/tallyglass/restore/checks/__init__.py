"""The checks of a plan, each with an id."""
