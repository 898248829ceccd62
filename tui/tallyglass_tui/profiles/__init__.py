"""The page that shows all profiles side by side."""
