"""`python -m ktx_cli` is `ktx`."""

from __future__ import annotations

from ktx_cli.cli.main import main

main()
