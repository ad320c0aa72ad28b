"""Guesses at what follows, from what is known already. Pure: a wrong guess costs rows of a step, never a text."""
