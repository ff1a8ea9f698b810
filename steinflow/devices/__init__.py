"""What depends on the machine: meshes of devices, code that XLA compiles badly for CPUs, what is kept on disk."""
