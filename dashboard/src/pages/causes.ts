/** What needs somebody, from what the API tells; the worst first. */
import type { Job, Queue, QueueStats, Worker } from "../api/client";
import { counted } from "../lib/format";

export interface Cause {
  key: string;
  shape: string;
  bad: boolean;
  subject: string;
  text: string;
  /** seconds that the oldest job waits */
  oldest?: number;
  since?: string;
  queue?: string;
  worker?: string;
  remedy?: "resume" | "undrain";
  page: string;
  search?: Record<string, unknown>;
  link: string;
}

export const LONG_WAIT_SECONDS = 60;
const MANY_FAILURES = 3;

export const isUp = (worker: Worker): boolean => !["offline", "dead"].includes(worker.status);

/** Queues that others send their dead letters to. */
export function deadLetterQueues(queues: Queue[]): Set<string> {
  const found = queues.map((one) => (one.settings as Record<string, unknown>).dead_letter_queue_id);
  return new Set(found.filter((one): one is string => typeof one === "string"));
}

export function findCauses(seen: { stats: QueueStats[]; workers: Worker[] | undefined; failures: Job[]; deadLetters: Set<string> }): Cause[] {
  const causes: Cause[] = [];
  const work = seen.stats.filter((one) => one.pending > 0 && !seen.deadLetters.has(one.queue_id));
  const up = seen.workers?.filter(isUp);
  if (up?.length === 0 && work.length > 0) {
    const waiting = work.reduce((sum, one) => sum + one.pending, 0);
    causes.push({ key: "no-worker", shape: "failed", bad: true, subject: "No worker is online", text: `· ${counted(waiting, "job waits", "jobs wait")}`, oldest: oldest(work), page: "workers", link: "Workers" });
  }
  for (const [kind, jobs] of groups(seen.failures)) {
    if (jobs.length < MANY_FAILURES) continue;
    const last = jobs[0]!;
    const error = last.error ? ` · ${last.error.type}: ${last.error.message}` : "";
    causes.push({ key: `failing ${kind}`, shape: "failed", bad: true, subject: last.job_type, text: `failed ${counted(jobs.length, "time")} in the last hour${error.slice(0, 120)}`, since: last.completed_at ?? undefined, page: "failures", search: { type: last.job_type, since: "1h" }, link: "Failures" });
  }
  for (const one of work.filter((queue) => !queue.is_active))
    causes.push({ key: `paused ${one.queue_id}`, shape: "paused", bad: false, subject: one.queue, text: `is paused · ${counted(one.pending, "job waits", "jobs wait")}`, oldest: one.oldest_pending_seconds ?? undefined, queue: one.queue_id, remedy: "resume", page: `queues/${one.queue_id}`, link: "Queue" });
  for (const one of up ?? []) {
    if (one.status === "unhealthy" || one.stuck_slots > 0)
      causes.push({ key: `ill ${one.id}`, shape: "warning", bad: false, subject: one.name, text: one.stuck_slots > 0 ? `has ${counted(one.stuck_slots, "slot")} held by handlers that did not end` : "is unhealthy", page: `workers/${one.id}`, link: "Worker" });
  }
  if (up?.length !== 0)
    for (const one of work)
      if (one.is_active && (one.oldest_pending_seconds ?? 0) > LONG_WAIT_SECONDS)
        causes.push({ key: `slow ${one.queue_id}`, shape: "warning", bad: false, subject: one.queue, text: `lets jobs wait · ${counted(one.pending, "job")}`, oldest: one.oldest_pending_seconds ?? undefined, queue: one.queue_id, page: "jobs", search: { queue: one.queue, status: "pending" }, link: "Why" });
  for (const one of seen.stats)
    if (one.pending > 0 && seen.deadLetters.has(one.queue_id))
      causes.push({ key: `dead ${one.queue_id}`, shape: "warning", bad: false, subject: one.queue, text: `holds ${counted(one.pending, "dead letter")}`, queue: one.queue_id, page: `queues/${one.queue_id}`, search: { tab: "dead" }, link: "Look" });
  return causes;
}

const oldest = (stats: QueueStats[]): number => Math.max(...stats.map((one) => one.oldest_pending_seconds ?? 0));

function groups(jobs: Job[]): [string, Job[]][] {
  const found = new Map<string, Job[]>();
  for (const job of jobs) {
    const kind = `${job.job_type} ${job.error?.type ?? ""}`;
    found.set(kind, [...(found.get(kind) ?? []), job]);
  }
  return [...found].sort((a, b) => b[1].length - a[1].length);
}
