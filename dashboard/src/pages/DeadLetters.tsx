import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { redriveJob } from "../api/actions";
import { api, data, type Queue } from "../api/client";
import { useRhythm } from "../api/live";
import { queryClient } from "../api/queries";
import { useMay } from "../api/session";
import { count, counted } from "../lib/format";
import { To, useScope } from "../shell/scope";
import { Action } from "../ui/Action";
import { Confirm } from "../ui/Dialog";
import { Empty, ErrorNotice, Loading, useToasts } from "../ui/feedback";
import { Id, Name, Time } from "../ui/text";

/** The dead letters that lie in this queue, or where those of this queue go. */
export function DeadLetters({ queue, isDead }: { queue: Queue; isDead: boolean }) {
  const target = (queue.settings as Record<string, unknown>).dead_letter_queue_id;
  if (isDead) return <Letters queue={queue} />;
  if (typeof target === "string")
    return <p>Its dead letters go to <To page={`queues/${target}`} search={{ tab: "dead" }}>another queue ›</To></p>;
  return (
    <Empty title="This queue keeps its failed jobs.">
      A job that has no attempts left stays here, failed. Name a queue for dead letters in the <To page={`queues/${queue.id}`} search={{ tab: "settings" }}>settings</To>, and they can be looked at and sent back together.
    </Empty>
  );
}

function Letters({ queue }: { queue: Queue }) {
  const may = useMay();
  const { tell } = useToasts();
  const { project } = useScope();
  const [asking, setAsking] = useState(false);
  const letters = useQuery({
    queryKey: ["jobs", "dead", queue.id],
    queryFn: () => data(api.GET("/api/v1/jobs", { params: { query: { queue: [queue.id], status: ["pending"], limit: 100 } } })),
    refetchInterval: useRhythm(5_000),
  });
  if (letters.error) return <ErrorNotice error={letters.error} />;
  if (letters.data === undefined) return <Loading />;
  const jobs = letters.data.items;
  const number = letters.data.next_cursor === null ? count(jobs.length) : "100+";
  if (jobs.length === 0) return <Empty title="No dead letters.">What fails for good in a queue that names this one comes here.</Empty>;
  const kinds = new Map<string, number>();
  for (const job of jobs) kinds.set(job.error?.type ?? job.reason ?? "unknown", (kinds.get(job.error?.type ?? job.reason ?? "unknown") ?? 0) + 1);
  const redriveAll = async () => {
    const before = new Date().toISOString();
    const made = await data(api.POST("/api/v1/jobs/change", { params: { query: { project } }, body: { action: "redrive", where: { queue: queue.id, status: ["pending"], created_before: before } } }));
    await queryClient.invalidateQueries();
    tell(`${counted(made.changed, "dead letter")} sent back${made.refused > 0 ? `, ${count(made.refused)} refused` : ""}`);
  };
  return (
    <>
      <header className="part">
        <span>{number} · {[...kinds].map(([kind, many]) => `${kind} ${many}`).join(", ")}</span>
        <span className="gap" />
        {may("job:write") && <button type="button" className="primary" onClick={() => setAsking(true)}>Redrive all {number}…</button>}
      </header>
      <table className="rows">
        <thead><tr><th>job</th><th>type</th><th className="wide-only">from</th><th>error</th><th className="number">since</th><th /></tr></thead>
        <tbody>
          {jobs.map((job) => (
            <tr key={job.id}>
              <td><To page={`jobs/${job.id}`} className="row-link"><Id id={job.id} /></To></td>
              <td><Name>{job.job_type}</Name></td>
              <td className="wide-only"><Name>{job.origin_queue ?? "–"}</Name></td>
              <td className="cut">{job.error ? `${job.error.type}: ${job.error.message}` : (job.reason ?? "–")}</td>
              <td className="number"><Time at={job.updated_at} /></td>
              <td className="number">{may("job:write") && <Action act={async () => { await redriveJob(job.id); tell("sent back"); }}>Redrive</Action>}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {asking && (
        <Confirm title={`Send ${number} dead letters back?`} action="Redrive them" onClose={() => setAsking(false)} onConfirm={redriveAll}>
          <p>Each goes back to the queue that it came from, with all its attempts. Such as <Id id={jobs[0]!.id} />, <Name>{jobs[0]!.job_type}</Name>.</p>
        </Confirm>
      )}
    </>
  );
}
