"""What each contender of `bench.drain` is made to do: one small driver each, run in that
contender's own environment.

Every driver knows the same words: `setup`, `single COUNT`, `bulk COUNT`, `pickup COUNT` and
`worker`, as far as they are measured. BENCH_URL says where its store is, BENCH_RUN in which folder
to leave what it counted.
"""
