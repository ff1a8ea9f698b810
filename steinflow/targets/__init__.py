"""What we infer: log densities with their constraints, priors, data and observations."""
