"""The pure heart: requests, sequences, slots, plan and commit. No I/O, no clock, no threads, no llama.cpp."""
