/** One axis of time: where it waited, and every attempt. */
import type { Execution, Job } from "../api/client";
import { useNow } from "../lib/clock";
import { clockTime, duration } from "../lib/time";
import { usePreferences } from "../lib/preferences";
import { isFinal } from "./jobList";

interface Part {
  kind: string;
  label: string;
  from: number;
  to: number;
}

export function partsOf(job: Job, executions: Execution[], now: number): Part[] {
  const parts: Part[] = [];
  let at = Date.parse(job.created_at);
  for (const one of [...executions].sort((a, b) => (a.created_at < b.created_at ? -1 : 1))) {
    const from = Date.parse(one.started_at ?? one.created_at);
    const to = one.finished_at ? Date.parse(one.finished_at) : now;
    if (from > at) parts.push({ kind: "waiting", label: "waited", from: at, to: from });
    parts.push({ kind: one.status === "succeeded" ? "succeeded" : one.finished_at === null ? "processing" : "failed", label: `#${one.attempt_number}`, from, to: Math.max(from, to) });
    at = Math.max(at, to);
  }
  if (!isFinal(job) && job.status !== "processing" && now > at) parts.push({ kind: "waiting", label: "waits", from: at, to: now });
  return parts;
}

export function Timeline({ job, executions }: { job: Job; executions: Execution[] }) {
  const now = useNow();
  const zone = usePreferences().zone || undefined;
  const parts = partsOf(job, executions, now);
  const start = Date.parse(job.created_at);
  const end = Math.max(start + 1, ...parts.map((one) => one.to));
  // a wait of hours must not hide attempts of milliseconds: each has a least width
  const widths = parts.map((one) => Math.max(0.04, (one.to - one.from) / (end - start)));
  const sum = widths.reduce((all, one) => all + one, 0) || 1;
  return (
    <div className="timeline">
      <div className="axis" role="list" aria-label="From its creation until it ended, or now">
        {parts.map((one, at) => (
          <div key={`${one.kind}${one.from}`} role="listitem" className={`part ${one.kind}`} ref={(element) => { if (element) element.style.flexGrow = String(widths[at]! / sum); }} title={`${one.label}: ${duration((one.to - one.from) / 1000)}`}>
            <span>{one.label} {duration((one.to - one.from) / 1000)}</span>
          </div>
        ))}
      </div>
      <div className="ends small faint"><span>created {clockTime(job.created_at, zone)}</span><span>{isFinal(job) && job.completed_at ? `ended ${clockTime(job.completed_at, zone)}` : "now"}</span></div>
    </div>
  );
}
