"""Reame: an LLM inference daemon for CPUs that never computes the same thing twice."""

__version__ = "0.1.0"
