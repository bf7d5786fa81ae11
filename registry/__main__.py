"""``python -m registry`` is ``mqregistry``."""

from registry.cli import main

main()
