-- So that the planner knows how many they are; and no index leads to those that go.
set local enable_seqscan = on; analyze survivors
