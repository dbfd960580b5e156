// Graphile Worker at its quickest: a local queue of 500 and completions in batches. Run by Node 22 from the benchmark's cache.
import fs from "node:fs";
import { createRequire } from "node:module";

const require = createRequire(process.env.BENCH_MODULES + "/");
const { Logger, makeWorkerUtils, run } = require("graphile-worker");

const BATCH = 1000;
const FLUSH_MILLISECONDS = 10;
const [mode, count] = [process.argv[2], Number(process.argv[3])];
const connectionString = process.env.BENCH_URL;
const logger = new Logger(() => () => {});

// The same three numbers as in tally.py. Node has no shared mapping, so the file is written a hundred times a second.
let handled = 0;
let first = 0n;
let written = 0;
const origin = BigInt(Math.round(performance.timeOrigin * 1e6));
const now = () => origin + BigInt(Math.round(performance.now() * 1e6));

function flush() {
  if (handled === written) return;
  written = handled;
  const counts = Buffer.alloc(24);
  counts.writeBigInt64LE(BigInt(handled), 0);
  counts.writeBigInt64LE(first, 8);
  counts.writeBigInt64LE(now(), 16);
  fs.writeFileSync(`${process.env.BENCH_RUN}/counts-${process.pid}`, counts);
}

async function noop() {
  if (++handled === 1) first = now();
}

if (mode === "worker") {
  setInterval(flush, FLUSH_MILLISECONDS);
  const worker = {
    connectionString,
    maxPoolSize: 12,
    concurrentJobs: 24,
    localQueue: { size: 500 },
    completeJobBatchDelay: 0,
    failJobBatchDelay: 0,
    logger,
  };
  await run({ preset: { worker }, logger, taskList: { noop } });
} else {
  const utils = await makeWorkerUtils({ connectionString, logger });
  if (mode === "setup") {
    await utils.migrate();
  } else {
    const started = performance.now();
    for (let start = 0; start < count; start += BATCH) {
      const size = Math.min(BATCH, count - start);
      await utils.addJobs(Array.from({ length: size }, () => ({ identifier: "noop", payload: { stamp: 0 } })));
    }
    console.log(JSON.stringify({ count, seconds: (performance.now() - started) / 1000 }));
  }
  await utils.release();
}
