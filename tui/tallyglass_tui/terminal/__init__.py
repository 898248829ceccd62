"""The base of the app, the driver, the pen and the themes: everything that touches private parts of Textual."""
