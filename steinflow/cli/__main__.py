"""`python -m steinflow.cli`, where the script is not on the path."""

from steinflow.cli import main

main()
