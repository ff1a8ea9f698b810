"""Inference methods: one file each, all of one shape (see `base.py`)."""
