"""Which documents are counters: library shapes, guesses, configuration, targets."""
