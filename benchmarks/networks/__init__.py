"""Networks: test errors, log-likelihoods and calibration beside rivals and beside NUTS."""
