/** Why a job is not running, and what would mend it. */
import { useQuery } from "@tanstack/react-query";
import { useEffect, useState, type ReactNode } from "react";
import { setDraining, setPaused } from "../api/actions";
import type { Job, Schemas } from "../api/client";
import { explainQuery, workersQuery } from "../api/queries";
import { useMay } from "../api/session";
import { useNow } from "../lib/clock";
import { count } from "../lib/format";
import { relative } from "../lib/time";
import { To, useScope } from "../shell/scope";
import { Action } from "../ui/Action";
import { ErrorNotice, useToasts } from "../ui/feedback";
import { Shape } from "../ui/Status";
import { Name, Time } from "../ui/text";

const SHAPES: Record<string, string> = { paused: "paused", rate_limit: "scheduled", concurrency: "paused", behind: "pending", other_queues: "pending", busy: "processing", expired: "failed", queue_deleted: "failed", scheduled: "scheduled", retry: "scheduled" };

export function Explain({ job }: { job: Job }) {
  const [rhythm, setRhythm] = useState(2_000);
  const now = useNow();
  const explanation = useQuery({ ...explainQuery(job.id), refetchInterval: rhythm });
  useEffect(() => {
    const timer = setTimeout(() => setRhythm(8_000), 60_000);
    return () => clearTimeout(timer);
  }, []);
  if (explanation.error && explanation.data === undefined) return <ErrorNotice error={explanation.error} />;
  const told = explanation.data;
  if (told === undefined || told.reasons.length === 0) return null;
  return (
    <section className="explain" aria-label="Why is it not running?">
      <h2>Why is it not running?</h2>
      <ol>
        {told.reasons.map((reason) => (
          <li key={reason.code + reason.text}>
            <Shape status={SHAPES[reason.code] ?? "warning"} />
            <span>{reason.text}{reason.until && Date.parse(reason.until) > now && <span className="faint"> (until <Time at={reason.until} />)</span>}</span>
            <span className="do"><Remedy reason={reason} job={job} workers={told.workers ?? []} /></span>
          </li>
        ))}
      </ol>
      <p className="small faint">
        {told.ahead ? `${count(told.ahead)} go first. ` : ""}
        {told.expected_start ? `It should start ${relative(told.expected_start, now)}. ` : ""}
        {told.workers_online === 0 ? "No worker is online." : `${count(told.workers_online)} ${told.workers_online === 1 ? "worker is" : "workers are"} online.`}
      </p>
      {(told.workers ?? []).length > 0 && (
        <details>
          <summary>Workers, one by one</summary>
          <ul className="candidates">
            {told.workers!.map((one) => (
              <li key={one.name}><Shape status={one.hindrance == null ? "online" : one.hindrance === "busy" ? "processing" : "warning"} /> <b><Name>{one.name}</Name></b> {one.text}</li>
            ))}
          </ul>
        </details>
      )}
    </section>
  );
}

/** The button that ends what keeps the job, or the place where that is done. */
function Remedy({ reason, job, workers }: { reason: Schemas["Reason"]; job: Job; workers: Schemas["Candidate"][] }): ReactNode {
  const may = useMay();
  const { project } = useScope();
  const { tell } = useToasts();
  const drains = workers.filter((one) => one.hindrance === "draining");
  const known = useQuery({ ...workersQuery(project), enabled: reason.code === "draining" && may("worker:read") });
  switch (reason.code) {
    case "paused":
      if (!may("queue:write")) return <To page={`queues/${job.queue_id}`}>Queue ›</To>;
      return (
        <Action className="primary" act={async () => { await setPaused(job.queue_id, false); tell(`${job.queue} is resumed`, () => void setPaused(job.queue_id, true)); }}>
          Resume {job.queue}
        </Action>
      );
    case "concurrency":
    case "rate_limit":
      return <To page={`queues/${job.queue_id}`} search={{ tab: "settings" }}>{may("queue:write") ? "Change the limit ›" : "Limits ›"}</To>;
    case "draining": {
      const worker = known.data?.find((one) => drains.some((each) => each.name === one.name));
      if (worker === undefined || !may("worker:write") || worker.stopping) return <To page="workers">Workers ›</To>;
      return <Action className="primary" act={() => setDraining(worker, false)}>Let {worker.name} work</Action>;
    }
    case "behind":
      return <To page="jobs" search={{ queue: job.queue, status: "pending" }}>Those ahead ›</To>;
    case "not_assigned":
    case "not_subscribed":
      return may("worker:read") ? <To page={`queues/${job.queue_id}`} search={{ tab: "served" }}>Who serves it ›</To> : null;
    case "no_worker":
    case "no_able_worker":
    case "no_handler":
    case "lacks_capability":
    case "busy":
    case "unhealthy":
    case "stuck":
      return may("worker:read") ? <To page="workers">Workers ›</To> : null;
    default:
      return null;
  }
}
