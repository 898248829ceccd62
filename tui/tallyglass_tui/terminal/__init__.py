"""The terminal driver, the pen and the themes: everything that touches Textual's private parts."""
