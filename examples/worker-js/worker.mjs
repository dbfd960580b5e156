#!/usr/bin/env node
// A TaskForge worker in plain JavaScript: Node 18 or later, nothing to install. docs/reference/worker-protocol.md is the protocol.
import { EventEmitter, once } from "node:events";
import { hostname } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import { pathToFileURL } from "node:url";

const WAIT_SECONDS = 30; // how long a claim waits for jobs
const REPORT_SECONDS = 0.2; // how long progress and log lines wait for company; outcomes do not wait
const BATCH = { items: 1000, bytes: 8e6 }; // the server takes no more at once

// Why a handler was stopped, and what is then reported. What was lost is reported to nobody.
const STOPPED = {
  cancel: () => ({ kind: "cancel", reason: "stopped on request" }),
  timeout: (job) => ({ kind: "timeout", seconds: job.timeout_seconds }),
  deadline: () => ({ kind: "deadline" }),
  hand_back: () => ({ kind: "hand_back", reason: "the worker stops" }),
  lost: () => null,
};

/** options: url, token, handlers {job type: async (job, ctx) => result}, and perhaps name, queues, concurrency, graceSeconds. */
export class Worker {
  stopping = new AbortController();

  constructor(options) {
    Object.assign(this, { name: `js-${hostname()}-${process.pid}`, queues: null, concurrency: 10, graceSeconds: 10 }, options);
  }

  /** Work until stop(). An incarnation that the server declared over (409) is followed by a new one; a refused key is thrown. */
  async run() {
    const about = { types: Object.keys(this.handlers), max_concurrent_jobs: this.concurrency, host: hostname(), pid: process.pid };
    while (!this.stopping.signal.aborted) {
      const given = await this.call("register", { name: this.name, queues: this.queues, ...about }, this.stopping.signal);
      if (!given) return;
      this.life = new Incarnation(this, given);
      await this.life.run();
    }
  }

  /** Claim nothing more. A newer claim ends the one that waits; to hang up on it instead could lose jobs that are on their way. */
  async stop() {
    this.stopping.abort();
    while (this.life?.claiming) {
      await this.life.post("claim", { limit: 0 }).catch(() => {});
      await sleep(500);
    }
  }

  /** Send until it is answered, for calls that can be sent twice; null if `signal` ends it first. */
  async call(verb, body, signal) {
    for (let tries = 0; !signal.aborted; tries++) {
      try {
        return (await this.post(verb, body)) ?? {};
      } catch (error) {
        if (!passing(error)) throw error;
        console.error(`${verb}: ${error.message}`);
        await pause(backoff(tries, error.retryAfter), signal);
      }
    }
    return null;
  }

  async post(verb, body, seconds = 20) {
    const response = await fetch(`${this.url.replace(/\/$/, "")}/api/v1/worker/${verb}`, {
      method: "POST",
      headers: { authorization: `Bearer ${this.token}`, "content-type": "application/json" },
      body: JSON.stringify(body),
      signal: AbortSignal.timeout(seconds * 1000),
    });
    const text = await response.text();
    if (response.ok) return text ? JSON.parse(text) : null;
    const retryAfter = Number(response.headers.get("retry-after")) || 0;
    throw Object.assign(new Error(`${response.status} ${text}`), { status: response.status, retryAfter });
  }
}

/** One life of a worker, from its register to its end. What it runs ends with it. */
class Incarnation {
  over = new AbortController();
  events = new EventEmitter(); // "outcome": there is one to report; "settled": a job is no longer ours
  running = new Map(); // execution → {job, controller, done}; a job stays here until its outcome was taken
  lines = [];
  beats = new Map();
  outcomes = [];

  constructor(worker, { incarnation, heartbeat_seconds }) {
    Object.assign(this, { worker, incarnation, heartbeatSeconds: heartbeat_seconds, drain: false, doubtUntil: 0 });
  }

  post = (verb, body, seconds) => this.worker.post(verb, { incarnation: this.incarnation, ...body }, seconds);
  hear = (event, seconds) => once(this.events, event, { signal: AbortSignal.timeout(seconds * 1000) }).catch(() => {});
  call = (verb, body) => this.worker.call(verb, { incarnation: this.incarnation, ...body }, this.over.signal);

  async run() {
    const loops = [this.claims(), this.heartbeats(), this.reports()].map((loop) => loop.catch((error) => this.end(error)));
    await loops[0];
    await this.handOver();
    this.end();
    await Promise.all(loops);
    if (this.error?.status === 409) return;
    if (this.error) throw this.error;
    await this.post("deregister", {}).catch((error) => console.error(`deregister: ${error.message}`)); // the lease ends by itself
  }

  end(error) {
    if (this.over.signal.aborted) return;
    this.error = error;
    for (const { controller } of this.running.values()) controller.abort("lost");
    this.over.abort();
    for (const event of ["outcome", "settled"]) this.events.emit(event);
  }

  async claims() {
    const { stopping, concurrency } = this.worker;
    for (let tries = 0; !stopping.signal.aborted && !this.over.signal.aborted; ) {
      const limit = concurrency - this.running.size;
      const risky = [...this.running.values()].some(({ job }) => mustRunAlone(job));
      if (limit <= 0 || risky || this.drain) {
        await this.hear("settled", 1);
        continue;
      }
      const held = Date.now() < this.doubtUntil ? { held: [...this.running.keys()] } : {};
      this.claiming = true;
      try {
        const { jobs } = await this.post("claim", { limit, wait_seconds: WAIT_SECONDS, ...held }, WAIT_SECONDS + 15);
        for (const job of jobs) this.start(job);
        tries = 0;
      } catch (error) {
        if (!passing(error)) throw error;
        if (error.status !== 429) this.doubtUntil = Date.now() + 60_000; // jobs may have been given out that we never heard of
        await pause(backoff(tries++, error.retryAfter), stopping.signal);
      } finally {
        this.claiming = false;
      }
    }
  }

  /** A job whose next crash would be its last runs alone: it waits for the others, and the others for it. */
  start(job) {
    const one = { job, controller: new AbortController() };
    const others = [...this.running.values()].filter((other) => mustRunAlone(job) || mustRunAlone(other.job));
    this.running.set(job.execution, one);
    if (this.over.signal.aborted) one.controller.abort("lost");
    one.done = Promise.all(others.map((other) => other.done)).then(() => this.execute(one));
  }

  async execute({ job, controller }) {
    const { execution } = job;
    const { signal } = controller;
    const began = performance.now();
    const limits = { timeout: job.timeout_seconds, deadline: job.deadline_seconds };
    const timers = Object.entries(limits).map(([why, s]) => s != null && setTimeout(() => controller.abort(why), Math.min(s * 1000, 2 ** 31 - 1)));
    const ctx = {
      signal,
      progress: (progress, message = null) => this.beats.set(execution, { execution, progress, message, began }),
      log: (message, level = "info", metadata = {}) =>
        this.lines.push({ execution, level, message: String(message), metadata, at: performance.now() }),
    };
    // A handler that does not listen to its signal goes on in the background, and what it returns is dropped.
    const stopped = new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason), { once: true }));
    const outcome = await Promise.race([stopped, (async () => !signal.aborted && this.worker.handlers[job.job_type](job, ctx))()])
      .then((result) => JSON.stringify({ kind: "success", result: result ?? null })) // what is not JSON fails here, and alone
      .catch((error) => JSON.stringify({ kind: "failure", error: described(error) }))
      .then((text) => (signal.aborted ? STOPPED[signal.reason](job) : JSON.parse(text)));
    timers.forEach(clearTimeout);
    this.beats.delete(execution);
    if (!outcome) return this.settled(execution);
    this.outcomes.push({ execution, outcome, ran_seconds: (performance.now() - began) / 1000 });
    this.events.emit("outcome");
  }

  settled(execution) {
    this.running.delete(execution);
    this.events.emit("settled");
  }

  /** Let handlers finish for a while and hand the rest back; all is reported when nothing is ours any more. */
  async handOver() {
    const late = setTimeout(() => this.running.forEach(({ controller }) => controller.abort("hand_back")), this.worker.graceSeconds * 1000);
    while (this.running.size > 0 && !this.over.signal.aborted) await this.hear("settled", 1);
    clearTimeout(late);
  }

  async heartbeats() {
    while (!this.over.signal.aborted) {
      try {
        const state = { memory_bytes: process.memoryUsage.rss(), healthy: true };
        const { drain, cancelled } = await this.post("heartbeat", state, this.heartbeatSeconds);
        this.drain = drain;
        for (const execution of cancelled) this.running.get(execution)?.controller.abort("cancel");
      } catch (error) {
        if (!passing(error)) throw error;
        console.error(`heartbeat: ${error.message}`); // the next one is its second try
      }
      await pause(this.heartbeatSeconds * (800 + 200 * Math.random()), this.over.signal);
    }
  }

  async reports() {
    while (!this.over.signal.aborted) {
      if (this.outcomes.length === 0) await this.hear("outcome", REPORT_SECONDS);
      const outcomes = portion(this.outcomes); // chosen first: their log lines are then all among those sent before them
      const now = performance.now();
      while (this.lines.length > 0 && !this.over.signal.aborted) {
        await this.report("logs", "lines", portion(this.lines).map(({ at, ...line }) => ({ ...line, seconds_ago: (now - at) / 1000 })));
      }
      const beats = [...this.beats.values()].slice(0, BATCH.items);
      for (const { execution } of beats) this.beats.delete(execution);
      await this.report("progress", "beats", beats.map(({ began, ...beat }) => ({ ...beat, started_seconds_ago: (now - began) / 1000 })));
      await this.report("complete", "outcomes", outcomes);
      for (const { execution } of outcomes) this.settled(execution);
    }
  }

  /** One item that the server cannot take refuses its whole batch: then each is sent alone, and only the bad one suffers. */
  async report(verb, field, items) {
    if (items.length === 0) return;
    try {
      for (const execution of (await this.call(verb, { [field]: items }))?.lost ?? []) this.running.get(execution)?.controller.abort("lost");
    } catch (error) {
      if (![400, 413, 422].includes(error.status)) throw error;
      if (items.length > 1) for (const item of items) await this.report(verb, field, [item]);
      else if (items[0].outcome?.kind === "success") {
        const failure = { kind: "failure", error: { type: "RefusedResult", message: error.message.slice(0, 1000) } };
        await this.report(verb, field, [{ ...items[0], outcome: failure }]);
      } else console.error(`${verb}: ${error.message}`);
    }
  }
}

const described = (error) => ({ type: error?.name ?? "Error", message: String(error?.message ?? error), traceback: error?.stack ?? "" });

/** Workers died under it before, and once more is once too often: nothing else may be blamed on it. */
const mustRunAlone = ({ crashes, max_crashes }) => crashes > 0 && crashes >= max_crashes - 1;

/** No answer, too many requests or trouble at the server: to be tried again. Anything else is a mistake of ours or a bad key. */
const passing = ({ status }) => status === undefined || status === 408 || status === 429 || status >= 500;
const backoff = (tries, retryAfter = 0) => Math.max(retryAfter * 1000, Math.min(200 * 2 ** tries, 10_000)) * (1 + Math.random() / 2);
const pause = (milliseconds, signal) => sleep(milliseconds, null, { signal }).catch(() => {});

/** Take as many as one call may carry. */
function portion(items) {
  let bytes = 0;
  const fits = (item, index) => (bytes += Buffer.byteLength(JSON.stringify(item)) + 40) < BATCH.bytes || index === 0;
  const end = items.findIndex((item, index) => index >= BATCH.items || !fits(item, index));
  return items.splice(0, end < 0 ? items.length : end);
}

const demo = {
  echo: async (job, ctx) => {
    ctx.log(`attempt ${job.attempt} of ${job.max_attempts}`);
    return job.payload;
  },
  sleep: async (job, ctx) => {
    const { seconds = 1 } = job.payload ?? {};
    ctx.progress(0, `${seconds} s to go`);
    ctx.signal.addEventListener("abort", () => console.error(`sleep: told to stop, ${ctx.signal.reason}`));
    await sleep(seconds * 1000, null, { signal: ctx.signal });
    ctx.progress(1);
    return { slept: seconds };
  },
  /** Fails as many times as the payload says, then succeeds. */
  fail: async (job) => {
    if (job.attempt <= (job.payload?.times ?? Infinity)) throw new TypeError(`attempt ${job.attempt} was to fail`);
    return { attempts: job.attempt };
  },
};

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  const { TASKFORGE_URL: url, TASKFORGE_TOKEN: token, TASKFORGE_CONCURRENCY: concurrency = 10, TASKFORGE_GRACE_SECONDS: grace = 10 } = process.env;
  if (!url || !token) throw new Error("TASKFORGE_URL and TASKFORGE_TOKEN (a worker key) must be set");
  const worker = new Worker({ url, token, handlers: demo, concurrency: Number(concurrency), graceSeconds: Number(grace) });
  for (const signal of ["SIGTERM", "SIGINT"]) process.on(signal, () => worker.stop());
  await worker.run();
}
