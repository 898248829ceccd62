"""``python -m tallyglass_tui`` is the ``tallyglass`` command."""

from tallyglass_tui.cli.entry import main

if __name__ == "__main__":
    main()
