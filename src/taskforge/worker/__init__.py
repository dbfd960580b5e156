"""The worker: claims jobs, runs their handlers, reports what came of them."""
