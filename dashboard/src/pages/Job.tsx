/** Where is it, why does it not run, what did each attempt do. */
import { useQuery } from "@tanstack/react-query";
import { useParams } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import { cancelJob, deleteJob, redriveJob, retryJob } from "../api/actions";
import type { Execution, Job as JobView } from "../api/client";
import { executionsQuery, jobQuery, type WholeJob } from "../api/queries";
import { useMay } from "../api/session";
import { useNow } from "../lib/clock";
import { duration, relative, span } from "../lib/time";
import { To, useGo } from "../shell/scope";
import { Action } from "../ui/Action";
import { Confirm } from "../ui/Dialog";
import { ErrorNotice, Loading, useToasts } from "../ui/feedback";
import { JsonView } from "../ui/JsonView";
import { Shape } from "../ui/Status";
import { Copy, Exact, Name, Time } from "../ui/text";
import { Attempts } from "./Attempts";
import { EditJob } from "./EditJob";
import { Explain } from "./Explain";
import { Failure } from "./Failure";
import { isFinal } from "./jobList";
import { Logs } from "./Logs";
import { Timeline } from "./Timeline";

export function Job() {
  const { job: id } = useParams({ strict: false }) as { job: string };
  const [rhythm, setRhythm] = useState(1_000);
  const job = useQuery({ ...jobQuery(id), refetchInterval: rhythm || false });
  const executions = useQuery({ ...executionsQuery(id), refetchInterval: rhythm || false });
  const status = job.data?.job.status;
  const settled = job.data !== undefined && isFinal(job.data.job);
  // a job that ended is told of by the stream alone; one that waits long is looked at less often
  useEffect(() => {
    setRhythm(settled ? 0 : 1_000);
    if (settled || status === "processing") return;
    const timer = setTimeout(() => setRhythm(3_000), 20_000);
    return () => clearTimeout(timer);
  }, [settled, status, id]);
  useEffect(() => {
    if (settled) void executions.refetch();
  }, [settled]);
  if (job.error && job.data === undefined) return <ErrorNotice error={job.error} retry={() => void job.refetch()} />;
  if (job.data === undefined) return <Loading />;
  return <Whole key={id} whole={job.data} executions={executions.data ?? []} />;
}

function Whole({ whole, executions }: { whole: WholeJob; executions: Execution[] }) {
  const { job, payload, result } = whole;
  const waits = job.status === "pending" || job.status === "scheduled";
  return (
    <>
      <p className="crumbs"><To page="jobs">Jobs</To> › <To page="jobs" search={{ job_type: job.job_type }}><Name>{job.job_type}</Name></To></p>
      <Head whole={whole} />
      <Verdict job={job} executions={executions} />
      {waits && <Explain job={job} />}
      {job.status === "processing" && job.progress !== null && (
        <p className="progress"><progress value={job.progress} max={1} aria-label="Progress" /> {Math.round(job.progress * 100)} % <span className="faint">{job.progress_message}</span></p>
      )}
      {job.error && job.status !== "succeeded" && <Failure error={job.error} />}
      <section><h2>Timeline</h2><Timeline job={job} executions={executions} /></section>
      {executions.length > 0 && <section><h2>Attempts</h2><Attempts executions={executions} job={job} /></section>}
      <section><h2>Logs</h2><Logs job={job} /></section>
      <div className="beside">
        <section><h2>Payload</h2><Part source={payload} job={job} name="payload" /></section>
        <section><h2>Result</h2>{isFinal(job) || result !== "null" ? <Part source={result} job={job} name="result" /> : <p className="faint">None yet.</p>}</section>
      </div>
      <section><h2>Facts</h2><Facts job={job} /></section>
    </>
  );
}

function Part({ source, job, name }: { source: string | undefined; job: JobView; name: string }) {
  if (job.redacted) return <p className="faint">Hidden: it needs the right <code>job:payload</code>, which operators have.</p>;
  if (job.payload_erased && name === "payload") return <p className="faint">It was erased.</p>;
  if (source === undefined || (name === "result" && source === "null")) return <p className="faint">None.</p>;
  return <JsonView source={source} name={name} />;
}

function Head({ whole }: { whole: WholeJob }) {
  const { job } = whole;
  const may = useMay();
  const go = useGo();
  const { tell } = useToasts();
  const [asking, setAsking] = useState<"cancel" | "delete" | "edit" | null>(null);
  const final = isFinal(job);
  const waits = job.status === "pending" || job.status === "scheduled";
  const act = (verb: (id: string) => Promise<void>, told: string) => async () => {
    await verb(job.id);
    tell(told);
  };
  return (
    <header className="page">
      <h1><Shape status={job.status} /> <Name>{job.job_type}</Name></h1>
      <span className="gap" />
      {may("job:write") && (
        <>
          {job.origin_queue && <Action className="primary" act={act(redriveJob, "sent back to its queue")}>Redrive</Action>}
          {final && <Action className={job.status === "failed" ? "primary" : undefined} act={act(retryJob, "it runs again")}>Retry</Action>}
          {job.status === "scheduled" && job.attempt_count > 0 && <Action act={act(retryJob, "it runs now")}>Retry now</Action>}
          {!final && (job.status === "processing" ? <button type="button" disabled={job.cancel_requested} onClick={() => setAsking("cancel")}>{job.cancel_requested ? "Stopping…" : "Cancel…"}</button> : <Action act={act(cancelJob, "it is cancelled")}>Cancel</Action>)}
          {waits && <button type="button" onClick={() => setAsking("edit")}>Edit</button>}
          <To page="enqueue" search={{ clone: job.id }} className="button">Clone</To>
          {final && <button type="button" className="quiet-danger" onClick={() => setAsking("delete")}>Delete…</button>}
        </>
      )}
      {asking === "cancel" && (
        <Confirm title="Stop this job?" action="Ask it to stop" danger onClose={() => setAsking(null)} onConfirm={async () => { await cancelJob(job.id); tell("it was asked to stop"); }}>
          <p>It runs on <Name>{job.worker_name ?? "a worker"}</Name>. What it has done so far is not undone; it is not tried again.</p>
        </Confirm>
      )}
      {asking === "delete" && (
        <Confirm title="Delete this job?" action="Delete it" danger onClose={() => setAsking(null)} onConfirm={async () => { await deleteJob(job.id); go("jobs"); }}>
          <p>Its payload, result, attempts and logs are removed. This cannot be undone.</p>
        </Confirm>
      )}
      {asking === "edit" && <EditJob whole={whole} onClose={() => setAsking(null)} />}
    </header>
  );
}

/** One sentence: what there is to know. */
function Verdict({ job, executions }: { job: JobView; executions: Execution[] }) {
  const now = useNow();
  const last = executions.reduce<Execution | undefined>((best, one) => (best === undefined || one.created_at > best.created_at ? one : best), undefined);
  const tries = `try ${job.attempt_count} of ${job.max_attempts}`;
  const ran = job.started_at && job.completed_at ? duration((Date.parse(job.completed_at) - Date.parse(job.started_at)) / 1000) : null;
  const text: Record<string, string> = {
    pending: `waits in ${job.queue} for ${span((now - Date.parse(job.created_at)) / 1000)}`,
    scheduled: job.attempt_count > 0 ? `failed ${job.attempt_count} of ${job.max_attempts} times; the next try comes ${job.scheduled_for ? relative(job.scheduled_for, now) : "soon"}` : `starts ${job.scheduled_for ? relative(job.scheduled_for, now) : "later"}`,
    processing: `runs on ${job.worker_name ?? "a worker"} for ${job.started_at ? span((now - Date.parse(job.started_at)) / 1000) : "a moment"}, ${tries}${job.cancel_requested ? "; it was asked to stop" : ""}`,
    succeeded: `${ran ? `in ${ran} ` : ""}${last?.worker_name ? `on ${last.worker_name}, ` : ""}${tries}`,
    failed: `for good after ${job.attempt_count} ${job.attempt_count === 1 ? "try" : "tries"}${job.reason ? `: ${job.reason}` : ""}`,
    cancelled: job.reason ?? "by request",
  };
  return (
    <p className="verdict-line" aria-live="polite">
      <b>{job.status}</b> · {text[job.status]}
    </p>
  );
}

function Facts({ job }: { job: JobView }) {
  const rows: [string, React.ReactNode][] = [
    ["id", <span key="id"><span className="mono break" translate="no">{job.id}</span> <Copy text={job.id} label="Copy the id" /></span>],
    ["queue", <To key="queue" page={`queues/${job.queue_id}`}><Name>{job.queue}</Name></To>],
    ["project", <Name key="project">{job.project}</Name>],
    ["priority", job.priority],
    ["created", <Exact key="created" at={job.created_at} />],
    ["scheduled for", job.scheduled_for && <Exact key="for" at={job.scheduled_for} />],
    ["started", job.started_at && <Exact key="started" at={job.started_at} />],
    ["ended", job.completed_at && <Exact key="ended" at={job.completed_at} />],
    ["start by", job.expires_at && <Exact key="by" at={job.expires_at} />],
    ["timeout", job.timeout_seconds && `${duration(job.timeout_seconds)} for each attempt`],
    ["tags", job.tags.length > 0 && job.tags.map((tag) => <To key={tag} page="jobs" search={{ tag }} className="token"><Name>{tag}</Name></To>)],
    ["requires", job.requires ? <code key="requires">{JSON.stringify(job.requires)}</code> : null],
    ["unique key", job.unique_key],
    ["idempotency key", job.idempotency_key],
    ["fairness key", job.fairness_key],
    ["trace", job.trace],
    ["came from", job.origin_queue],
    ["crashes", job.crash_count || null],
    ["changed", <Time key="changed" at={job.updated_at} />],
  ];
  return <dl className="facts">{rows.filter(([, value]) => value).map(([name, value]) => <div key={name}><dt>{name}</dt><dd>{value}</dd></div>)}</dl>;
}
