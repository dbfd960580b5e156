/** A status is a shape, a word and a colour, in that order of trust. */
import type { ReactNode } from "react";

type Tone = "neutral" | "accent" | "succeeded" | "failed" | "warning";

const ring = <circle cx="6" cy="6" r="4.6" />;
const SHAPES: Record<string, [Tone, ReactNode]> = {
  pending: ["neutral", ring],
  queued: ["neutral", ring],
  scheduled: ["neutral", <>{ring}<path d="M6 3.4V6l1.8 1.2" /></>],
  retry_scheduled: ["warning", <>{ring}<path d="M6 3.4V6l1.8 1.2" /></>],
  processing: ["accent", <>{ring}<path d="M6 1.4a4.6 4.6 0 0 1 0 9.2z" className="fill" /></>],
  succeeded: ["succeeded", <><circle cx="6" cy="6" r="5.2" className="fill" /><path d="M3.6 6.2 5.3 8l3.2-3.8" className="cut" /></>],
  failed: ["failed", <><rect x="1.2" y="1.2" width="9.6" height="9.6" rx="1.4" /><path d="m3.9 3.9 4.2 4.2m0-4.2L3.9 8.1" /></>],
  cancelled: ["neutral", <>{ring}<path d="m2.9 9.1 6.2-6.2" /></>],
  paused: ["warning", <path d="M4 2v8M8 2v8" className="thick" />],
  warning: ["warning", <><path d="M6 1.4 11 10.4H1z" /><path d="M6 4.8v2.4m0 1.2v.6" /></>],
  online: ["succeeded", <circle cx="6" cy="6" r="4.4" className="fill" />],
  offline: ["neutral", ring],
};
const ALIKE: Record<string, string> = {
  started: "processing",
  running: "processing",
  dead_letter: "failed",
  active: "online",
  busy: "online",
  idle: "online",
  draining: "paused",
  unhealthy: "warning",
  dead: "failed",
};
const WORDS: Record<string, string> = { retry_scheduled: "will be retried", dead_letter: "dead letter" };

export function Shape({ status }: { status: string }) {
  const [tone, shape] = SHAPES[ALIKE[status] ?? status] ?? SHAPES.pending!;
  const turning = (ALIKE[status] ?? status) === "processing";
  return (
    <svg className={`shape tone-${tone}${turning ? " turning" : ""}`} viewBox="0 0 12 12" aria-hidden="true">
      {shape}
    </svg>
  );
}

export function Status({ status, word }: { status: string; word?: ReactNode }) {
  const [tone] = SHAPES[ALIKE[status] ?? status] ?? SHAPES.pending!;
  return (
    <span className={`status tone-${tone}`}>
      <Shape status={status} />
      <span>{word ?? WORDS[status] ?? status}</span>
    </span>
  );
}
