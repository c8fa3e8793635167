"""Fuzzing: seeded random cases against the command line and the Python API.

    make fuzz                                   10,000 cases in process, 300 as real processes
    python -m tests.fuzz --seed 7 --cases 2000  other cases
    python -m tests.fuzz --seed 7 --case 123    one of them again, told in full

A case damages a file, a run folder, a record, a state or an argument and gives it to wordwave. The
right answer is success or a refusal: exit code 2 and one line, within 30 seconds and 3 GB, never a
traceback, a crash or invalid JSON. What once went wrong is kept in tests/test_past_failures.py.

Modules: base (small trained runs that are damaged), mutate (how), cases and api (what is called),
run (one case in a process of its own), judge (was the answer right?), __main__ (all of them).
"""
