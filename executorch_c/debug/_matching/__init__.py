"""Which value of a program is which node of a model, or which value of another program."""
