/** What is wrong by the rules that somebody made, and what became of it. */
import { useQuery } from "@tanstack/react-query";
import { useState, type FormEvent } from "react";
import { api, data, Problem, type AlertRule } from "../api/client";
import { useRhythm } from "../api/live";
import { alertsQuery, queryClient, queuesQuery, type Project } from "../api/queries";
import { useMay } from "../api/session";
import { To, useScope } from "../shell/scope";
import { Action } from "../ui/Action";
import { Confirm } from "../ui/Dialog";
import { Empty, ErrorNotice, Loading, useToasts } from "../ui/feedback";
import { Shape, Status } from "../ui/Status";
import { Name, Time } from "../ui/text";

const KINDS: Record<string, string> = {
  failed_jobs: "jobs that failed for good",
  failure_rate: "percent of executions that failed",
  queue_size: "jobs that wait in a queue",
  oldest_pending: "seconds that a job has waited",
  workers_down: "seconds since a worker was heard of",
  schedule_missed: "seconds by which a schedule is late",
  circuit_open: "circuits that hand nothing out",
  upkeep_late: "services of the platform that are late",
};
const OF_QUEUES = ["failed_jobs", "failure_rate", "queue_size", "oldest_pending"];
const NEWS_SHAPES: Record<string, string> = { fired: "failed", repeated: "failed", resolved: "succeeded" };
const HOUR = 3_600;

const path = (rule: string) => ({ params: { path: { rule } } });
const settle = () => Promise.all(["alerts", "alert-history"].map((key) => queryClient.invalidateQueries({ queryKey: [key] })));

async function silence(rule: AlertRule, seconds: number): Promise<void> {
  await data(api.POST("/api/v1/alerts/{rule}/silence", { ...path(rule.id), body: { seconds } }));
  await settle();
}

async function setPaused(rule: AlertRule, is_paused: boolean): Promise<void> {
  await data(api.PATCH("/api/v1/alerts/{rule}", { ...path(rule.id), body: { is_paused } }));
  await settle();
}

const isSilenced = (rule: AlertRule): boolean => rule.silenced_until !== null && Date.parse(rule.silenced_until) > Date.now();

export function Alerts() {
  const { project } = useScope();
  const may = useMay();
  const rules = useQuery({ ...alertsQuery(project), refetchInterval: useRhythm(5_000) });
  const [making, setMaking] = useState(false);
  if (rules.error && rules.data === undefined) return <ErrorNotice error={rules.error} retry={() => void rules.refetch()} />;
  if (rules.data === undefined) return <Loading />;
  const firing = rules.data.filter((one) => one.is_firing);
  return (
    <>
      <header className="page">
        <h1>{rules.data.length > 0 && <Shape status={firing.length > 0 ? "failed" : "succeeded"} />} Alerts</h1>
        <span className="gap" />
        {may("queue:write") && !making && <button type="button" className="primary" onClick={() => setMaking(true)}>New rule</button>}
      </header>
      {making && <NewRule project={project} close={() => setMaking(false)} />}
      {rules.data.length === 0 ? (
        !making && <Empty title="There is no alert rule yet." command={'taskforge alerts create "too many wait" queue_size --threshold 500'}>A rule tells when jobs fail, wait for too long, or workers fall silent: here, in the log and on the event stream.</Empty>
      ) : (
        <table className="rows">
          <thead><tr><th>rule</th><th>says</th><th className="wide-only">about</th><th className="number wide-only">since</th><th /></tr></thead>
          <tbody>{[...firing, ...rules.data.filter((one) => !one.is_firing)].map((one) => <RuleLine key={one.id} rule={one} write={may("queue:write")} />)}</tbody>
        </table>
      )}
      <History project={project} />
    </>
  );
}

function RuleLine({ rule, write }: { rule: AlertRule; write: boolean }) {
  const { tell } = useToasts();
  const [deleting, setDeleting] = useState(false);
  const shape = rule.is_paused ? "paused" : rule.is_firing ? "failed" : "succeeded";
  const silenced = isSilenced(rule);
  return (
    <tr>
      <td><Shape status={shape} /> <Name>{rule.name}</Name>{silenced && <span className="faint"> silenced until <Time at={rule.silenced_until} /></span>}</td>
      <td className="words">{rule.is_paused ? <span className="faint">nothing: it is paused</span> : rule.detail ?? <span className="faint">not looked at yet</span>}</td>
      <td className="wide-only">{rule.queue === null ? <span className="faint">the whole project</span> : <Name>{rule.queue}</Name>}</td>
      <td className="number wide-only"><Time at={rule.since} /></td>
      <td className="number acts">
        {write && (
          <>
            {silenced ? <Action act={() => silence(rule, 0)}>Tell again</Action> : rule.is_firing && <Action act={async () => { await silence(rule, HOUR); tell(`${rule.name} is silenced for an hour`, () => void silence(rule, 0)); }}>Silence 1 h</Action>}{" "}
            {rule.is_paused ? <Action act={() => setPaused(rule, false)}>Resume</Action> : <Action act={() => setPaused(rule, true)}>Pause</Action>}{" "}
            <button type="button" className="quiet-danger" onClick={() => setDeleting(true)}>Delete…</button>
          </>
        )}
        {deleting && (
          <Confirm title={`Delete ${rule.name}?`} action="Delete it" danger onClose={() => setDeleting(false)} onConfirm={async () => { await data(api.DELETE("/api/v1/alerts/{rule}", path(rule.id))); await settle(); }}>
            <p>Nobody is told of it any more; its history stays. This cannot be undone.</p>
          </Confirm>
        )}
      </td>
    </tr>
  );
}

function NewRule({ project, close }: { project: Project; close: () => void }) {
  const queues = useQuery(queuesQuery(project));
  const [values, setValues] = useState({ name: "", kind: "queue_size", queue: "", threshold: "", window: "300" });
  const [error, setError] = useState<unknown>(null);
  const set = (change: Partial<typeof values>) => setValues((all) => ({ ...all, ...change }));
  const fault = (name: string) => {
    const found = error instanceof Problem ? error.faults.find((one) => one.pointer.split("/")[1] === name) : undefined;
    return <span className="fault">{found && `✕ ${found.detail}${found.expected ? `: ${found.expected}` : ""}`}</span>;
  };
  const ofQueues = OF_QUEUES.includes(values.kind);
  const make = async (event: FormEvent) => {
    event.preventDefault();
    setError(null);
    try {
      const body = { name: values.name, kind: values.kind, queue: ofQueues && values.queue !== "" ? values.queue : null, threshold: values.threshold === "" ? null : Number(values.threshold), window_seconds: Number(values.window) };
      await data(api.POST("/api/v1/alerts", { params: { query: { project } }, body }));
      await settle();
      close();
    } catch (problem) {
      setError(problem);
    }
  };
  const faults = error instanceof Problem && error.faults.length > 0;
  return (
    <form className="form" onSubmit={(event) => void make(event)}>
      <label className="field"><span>Name</span><input required value={values.name} onChange={(event) => set({ name: event.target.value })} />{fault("name")}</label>
      <label className="field"><span>Counts</span><select value={values.kind} onChange={(event) => set({ kind: event.target.value })}>{Object.entries(KINDS).map(([kind, what]) => <option key={kind} value={kind}>{what}</option>)}</select>{fault("kind")}</label>
      {ofQueues && <label className="field"><span>Queue <span className="faint">empty: every queue</span></span><input list="alert-queues" value={values.queue} onChange={(event) => set({ queue: event.target.value })} />{fault("queue")}</label>}
      <datalist id="alert-queues">{(queues.data ?? []).map((one) => <option key={one.id} value={one.name} />)}</datalist>
      <label className="field"><span>Fires at <span className="faint">empty: as is usual</span></span><input inputMode="decimal" value={values.threshold} onChange={(event) => set({ threshold: event.target.value })} />{fault("threshold")}</label>
      {(values.kind === "failed_jobs" || values.kind === "failure_rate") && <label className="field"><span>Within the last <span className="faint">s</span></span><input required inputMode="decimal" value={values.window} onChange={(event) => set({ window: event.target.value })} />{fault("window_seconds")}</label>}
      {error !== null && !faults && <ErrorNotice error={error} />}
      <footer><button type="submit" className="primary">Make it</button> <button type="button" onClick={close}>Leave it</button></footer>
    </form>
  );
}

function History({ project }: { project: Project }) {
  const history = useQuery({
    queryKey: ["alert-history", project],
    queryFn: () => data(api.GET("/api/v1/alerts/history", { params: { query: { project, limit: 30 } } })).then((one) => one.items),
    refetchInterval: useRhythm(5_000),
  });
  if (!history.data || history.data.length === 0) return null;
  return (
    <section>
      <h2>What became of them</h2>
      <table className="rows">
        <thead><tr><th>rule</th><th>news</th><th>says</th><th className="number">at</th></tr></thead>
        <tbody>
          {history.data.map((one) => (
            <tr key={one.rule + one.at}>
              <td><Name>{one.name}</Name></td>
              <td><Status status={NEWS_SHAPES[one.news] ?? "pending"} word={one.news} />{one.is_silent && <span className="faint"> in silence</span>}</td>
              <td className="words">{one.detail}</td>
              <td className="number"><Time at={one.at} /></td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

/** Those that somebody should look at. */
export const firingOf = (rules: AlertRule[] | undefined): AlertRule[] => (rules ?? []).filter((one) => one.is_firing && !isSilenced(one));

export function FiringAlert({ rule }: { rule: AlertRule }) {
  return (
    <li>
      <Shape status="failed" />
      <span className="what">Alert <b><Name>{rule.name}</Name></b>: {rule.detail}</span>
      <span className="do"><To page="alerts">Alerts ›</To></span>
    </li>
  );
}
