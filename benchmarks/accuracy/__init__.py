"""Accuracy without tuning: `sf.SVGD()` on a suite of targets, beside the paper's SVGD, its peers and NUTS."""
