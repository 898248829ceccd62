"""The Oplog page: tail, incidents, rates, and what is selected."""
