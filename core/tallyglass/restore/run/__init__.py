"""Runs the steps of a plan's folder, one after the other, for a person who is asked before each of them."""
