"""Kernels for GPUs, in Triton, which comes with torch for GPUs alone: a module is imported only where it is used."""
