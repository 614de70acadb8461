"""A program that computes wrongly, cut to the nodes that show it.

`graph.py` has the graph that was lowered and its parts, `source.py` writes a part as a module in
Python, `trial.py` lowers a part again and compares it with eager, `search.py` grows and shrinks the
part until it shows the fault, `constants.py` puts a program's own constants into a small one,
`own.py` has the program's own nodes as a part,
`files.py` writes the folder, `report.py` has the result, `run.py` does all of this.
"""
