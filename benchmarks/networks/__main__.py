"""Networks: test errors, log-likelihoods and calibration beside rivals and NUTS, with core-seconds.

    python -m benchmarks.networks                             # all, into docs/networks-measured.md; a day on two cores
    python -m benchmarks.networks published --sets airfoil --seeds 5
    python -m benchmarks.networks uci --sets boston yacht --seeds 3
    python -m benchmarks.networks noisy --seeds 3
    python -m benchmarks.networks digits --seeds 2
    python -m benchmarks.networks truth --seeds 1

Every finished run is kept in benchmarks/results/networks/, and not made again: the command goes on where it was
interrupted. Delete files there to make runs anew. What was measured goes into the page, whatever part of it that is.

`published` needs `regression/airfoil.npz` and `bikesharing.npz`, with the rows `train` and `test` of the published
split, in the folder named by STEINFLOW_DATA. `uci` takes the standard splits of the nine sets of
`steinflow.paper.datasets`, split k for seed k.
"""

import argparse

from benchmarks.networks.images import digits
from benchmarks.networks.tables import noisy, published, uci
from benchmarks.networks.truth import truth
from benchmarks.pages import put

PAGE = "docs/networks-measured.md"
PARTS = {"published": published, "uci": uci, "noisy": noisy, "digits": digits, "truth": truth}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], default=list(PARTS))
    parser.add_argument("--sets", nargs="+", help="of one part")
    parser.add_argument("--seeds", type=int, default=5, help="or splits")
    options = parser.parse_args()
    for part in options.parts:
        put(PAGE, part, PARTS[part](options.sets, options.seeds))


if __name__ == "__main__":
    main()
