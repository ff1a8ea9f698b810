"""The mathematics: kernels, bandwidths, the Stein direction, the kernelized Stein discrepancy."""
