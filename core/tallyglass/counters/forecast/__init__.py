"""Forecasts of the end of a counter: from samples to a date with a band."""
