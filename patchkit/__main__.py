"""`python -m patchkit`."""

from patchkit.cli.run import main

main()
