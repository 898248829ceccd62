"""What a restore changes: loss, reissued ids, counters, what is brought back."""
