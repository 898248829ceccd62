"""Look at counter documents: recognise them, know where they end, forecast when."""
