"""Fourier transforms: stages of small radices, and convolutions for large primes."""
