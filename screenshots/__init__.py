"""Screenshots of every screen, made from the running demo by ``python -m screenshots.make``."""
