"""Small models of the tests: each file has a table of rows, which its `load` exports or reads from
the cache (`kept`), with eager's results."""
