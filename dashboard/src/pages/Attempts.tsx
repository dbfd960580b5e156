import type { Execution, Job } from "../api/client";
import { duration } from "../lib/time";
import { To } from "../shell/scope";
import { Status } from "../ui/Status";
import { Name, Time } from "../ui/text";
import { Failure } from "./Failure";

/** Newest first; an error that is the same as the one before says so. */
export function Attempts({ executions, job }: { executions: Execution[]; job: Job }) {
  const order = [...executions].sort((a, b) => (a.created_at < b.created_at ? 1 : -1));
  return (
    <ol className="attempts">
      {order.map((one, at) => {
        const before = order[at + 1]?.error;
        const same = one.error && before && before.type === one.error.type && before.message === one.error.message;
        return (
          <li key={one.id}>
            <span className="mono">#{one.attempt_number}</span> <Status status={one.status} />{" "}
            <span>{one.duration_ms === null ? "" : duration(one.duration_ms / 1000)}</span>{" "}
            {one.worker_name && <span className="faint">on {one.worker_id ? <To page={`workers/${one.worker_id}`}><Name>{one.worker_name}</Name></To> : <Name>{one.worker_name}</Name>}</span>}{" "}
            <span className="faint"><Time at={one.started_at ?? one.created_at} /></span>
            {one.reason && <span className="faint"> {one.reason}</span>}
            {one.error && (same ? <span className="faint"> {one.error.type}, the same as before</span> : at === 0 && job.status === "failed" ? null : <Failure error={one.error} />)}
          </li>
        );
      })}
    </ol>
  );
}
