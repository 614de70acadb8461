"""`executorch_c.testing.check_model`: a program compared with its PyTorch model.

`flows` exports; `plan` makes the cases from `inputs` (values), `roles` (what an input is used for)
and `shapes`; `run` calls both sides, `result` has the verdict, `report` shows it as HTML, `finding`
explains it, `stages` adds the stage to errors, `ties` has unstable sorts. `variation` and `power`
say what the cases tested; `sensitivity` measures it with `gradients`, `perturbing` without, both by
`trials` with wrong `constants`. Torch is imported by functions, and by `noise`, `ties`, `judged`
and the modules that measure.
"""
