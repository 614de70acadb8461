"""`executorch_c.testing.check_model`: a program compared with its PyTorch model.

`named` finds models by name, `flows` exports; `case_source` makes the cases from `inputs` (values),
`roles` (what an input is used for) and `shapes`; `run` calls both sides, each case by `case_run`;
`result` has the verdict, `report` shows it as HTML, `finding` explains it, `ladder` compares the
steps from the model to the program, `stages` adds the stage to errors. `variation` and `power` say
what the cases tested; `sensitivity` measures it with `gradients`, `perturbing` without, both by
`trials` with wrong `constants`. Torch is imported by functions, and by `judged` and the modules
that measure.
"""
