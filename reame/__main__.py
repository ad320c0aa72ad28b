"""`python -m reame`."""

from reame.cli import main

main()
