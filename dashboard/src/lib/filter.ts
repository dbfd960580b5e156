/** The filter of the job list: what the address says, what the API is asked, what the bar shows. */

export const STATUSES = ["pending", "scheduled", "processing", "succeeded", "failed", "cancelled"] as const;
export type Status = (typeof STATUSES)[number];

export interface JobFilter {
  status?: Status[];
  queue?: string;
  job_type?: string;
  tag?: string;
  priority?: number;
  /** jobs that failed alike */
  failure_group?: string;
  /** "15m", "24h" or "7d" back from now, so that a link stays true tomorrow */
  last?: string;
}

export const PERIODS: Record<string, string> = {
  "15m": "last 15 min",
  "1h": "last hour",
  "24h": "last 24 h",
  "7d": "last 7 days",
};
const SECONDS: Record<string, number> = { m: 60, h: 3_600, d: 86_400 };

const text = (value: unknown): string | undefined =>
  typeof value === "string" && value !== "" ? value : typeof value === "number" ? String(value) : undefined;

/** Whatever the address says becomes a filter; what makes no sense is left out. */
export function readFilter(search: Record<string, unknown>): JobFilter {
  const statuses = (Array.isArray(search.status) ? search.status : [search.status]).filter((one): one is Status =>
    STATUSES.includes(one as Status),
  );
  const priority = Number(search.priority);
  const last = text(search.last);
  const filter: JobFilter = {};
  if (statuses.length > 0) filter.status = statuses;
  for (const key of ["queue", "job_type", "tag", "failure_group"] as const) {
    const value = text(search[key]);
    if (value !== undefined) filter[key] = value;
  }
  if (search.priority !== undefined && Number.isInteger(priority)) filter.priority = priority;
  if (last !== undefined && /^\d{1,4}[mhd]$/.test(last)) filter.last = last;
  return filter;
}

export function periodSeconds(last: string): number {
  return Number(last.slice(0, -1)) * SECONDS[last.slice(-1)]!;
}

export function createdAfter(filter: JobFilter, now: number): string | undefined {
  return filter.last === undefined ? undefined : new Date(now - periodSeconds(filter.last) * 1000).toISOString();
}

/** "queue:mail tag:eu status:failed,pending order-17": what has no key is a job type. */
export function readWords(words: string): Record<string, unknown> {
  const found: Record<string, unknown> = {};
  for (const word of words.match(/[^\s:]+:"[^"]*"|\S+/g) ?? []) {
    const at = word.indexOf(":");
    const key = at < 0 ? "job_type" : word.slice(0, at).replace(/^type$/, "job_type");
    const value = (at < 0 ? word : word.slice(at + 1)).replace(/^"|"$/g, "");
    if (STATUSES.includes(word as Status)) found.status = [...((found.status as string[]) ?? []), word];
    else if (key === "status") found.status = value.split(",");
    else found[key] = value;
  }
  return found;
}

export const isEmpty = (filter: JobFilter): boolean => Object.keys(filter).length === 0;

export function matches(filter: JobFilter, job: { status: string; queue: string; job_type: string; tags: string[]; priority: number }): boolean {
  return (
    (filter.status === undefined || filter.status.includes(job.status as Status)) &&
    (filter.queue === undefined || filter.queue === job.queue) &&
    (filter.job_type === undefined || filter.job_type === job.job_type) &&
    (filter.tag === undefined || job.tags.includes(filter.tag)) &&
    (filter.priority === undefined || filter.priority === job.priority)
  );
}
