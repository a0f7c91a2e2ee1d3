"""What `benchmarks/transforms.py` measures."""
