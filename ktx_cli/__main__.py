"""`python -m ktx_cli` is `ktx`."""

from ktx_cli.cli.main import main

main()
