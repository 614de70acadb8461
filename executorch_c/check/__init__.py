"""`executorch_c.testing.check_model`: a program beside the PyTorch model that it was made from.

`flows` exports, `cases` makes inputs, `run` calls both sides, `result` is what comes of it,
`report` shows it as HTML, `finding` explains it. Only what runs imports torch and executorch.
"""
