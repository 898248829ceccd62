"""Which collections keep pre-images, how far back, and what one document was before and after an entry."""
