"""Constrained answers: JSON Schema, regular expressions, lists of labels and grammars, by llguidance.

The way of a constraint: `grammar` makes llguidance's text of it, and refuses what it can name; `trial` compiles it in
a child process, as a hostile one can take any time and memory; `compiler` compiles it here and keeps it; `matcher`
follows one answer.
"""
