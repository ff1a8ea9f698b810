"""What comes back: particles, how far to believe them, and the ways out (tables, ArviZ, files, plots)."""
