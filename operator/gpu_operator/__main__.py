"""``python -m gpu_operator``."""

from gpu_operator.app import main

main()
