"""`executorch_c.testing.check_all`: many models by many flows.

`checks` has the checks as plain data, `options` their options, `file` reads them from TOML. `run`
hands each check to an executor, whose threads or processes call `worker`: it keeps a process that
has imported torch (`server`), which forks for each check, so that a crash or a time limit ends only
this check (`one`). `result` has the rows and the verdict, `baseline` what got worse since an
earlier result, `writers` the formats of CI systems.
"""
