"""`reame doctor`: measures what this machine can do with a model, and says what follows from it."""
