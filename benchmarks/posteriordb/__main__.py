"""Posteriors of posteriordb from Stan's starting points, with the defaults of `sf.fit`: nothing is tuned or scaled.

    python -m benchmarks.posteriordb                            # all posteriors, three keys, into docs/posteriordb.md
    python -m benchmarks.posteriordb kidiq garch                # those whose names contain one of these
    python -m benchmarks.posteriordb --contenders NUTS MCLMC    # BlackJAX's, of which there are more: see --help
    python -m benchmarks.posteriordb --missing --contenders steinflow NUTS     # only what was not measured yet
    python -m benchmarks.posteriordb garch --keys 1 --steps 300 # experiments are printed, not kept
    python -m benchmarks.posteriordb check                      # whether the densities are those of the reference
    python -m benchmarks.posteriordb page                       # what is measured so far, into docs/posteriordb.md

The environment variable STEINFLOW_DATA names the folder that has `posteriordb/`. The error of the mean is in reference
sds, root mean square over parameters; the ratio is that of sds to the reference's, smallest to largest. An answer is
right with an error of at most 0.1 and every ratio within 10%.
"""

import argparse

from benchmarks.posteriordb.check import check
from benchmarks.posteriordb.contenders import CONTENDERS
from benchmarks.posteriordb.models import problems
from benchmarks.posteriordb.page import page, printed
from benchmarks.posteriordb.rows import measured, row


def table(options):
    """Measure, print a line as soon as it is there, and write the page."""
    for name, make in problems().items():
        if options.words and not any(word in name for word in options.words):
            continue
        for who in options.contenders:
            if options.missing and measured(name, who):
                continue
            found = row(make, name, who, options.keys, options.steps)
            print(printed(name, who, found), flush=True)
    page()


def main():
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.posteriordb",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("words", nargs="*", help="check, page, or parts of names")
    parser.add_argument("--keys", type=int, help="how many; three for steinflow and one for the others if not given")
    parser.add_argument("--steps", type=int, help="num_steps of sf.fit, for experiments")
    parser.add_argument("--contenders", nargs="+", choices=CONTENDERS, default=["steinflow"])
    parser.add_argument("--missing", action="store_true", help="measure only what was not measured yet")
    options = parser.parse_args()
    command, *words = options.words or [""]
    if command == "check":
        check(words)
    elif command == "page":
        page()
    else:
        table(options)


if __name__ == "__main__":
    main()
