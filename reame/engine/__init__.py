"""Everything that touches llama.cpp, and the fake that stands in for it."""
