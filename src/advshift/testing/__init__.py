"""Small solved problems and independent solvers, shared by the tests, the docs and the benchmarks."""
