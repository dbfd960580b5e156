/** Where work piles up, by which rules it runs, who serves it, what died there. */
import { useQuery } from "@tanstack/react-query";
import { useParams, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { setPaused } from "../api/actions";
import { api, data, type Queue as QueueView } from "../api/client";
import { useRhythm } from "../api/live";
import { queryClient, queueQuery, queuesQuery, servingQuery, statsQuery } from "../api/queries";
import { useMay } from "../api/session";
import { count } from "../lib/format";
import { span } from "../lib/time";
import { To, useGo, useScope } from "../shell/scope";
import { Action } from "../ui/Action";
import { Confirm } from "../ui/Dialog";
import { Empty, ErrorNotice, Loading, useToasts } from "../ui/feedback";
import { Load } from "../ui/Load";
import { Shape } from "../ui/Status";
import { Name, Time } from "../ui/text";
import { deadLetterQueues } from "./causes";
import { Charts } from "./Charts";
import { DeadLetters } from "./DeadLetters";
import { forecastQuery, isBad, outlookOf, waitOf } from "./forecast";
import { QueueSettings } from "./QueueSettings";
import { RecentJobs } from "./RecentJobs";

const TABS = [
  ["stats", "Figures"],
  ["settings", "Settings"],
  ["served", "Served by"],
  ["dead", "Dead letters"],
] as const;

export function Queue() {
  const { queue: id } = useParams({ strict: false }) as { queue: string };
  const { tab = "stats", period = "1h" } = useSearch({ strict: false }) as { tab?: string; period?: string };
  const { project } = useScope();
  const may = useMay();
  const { tell } = useToasts();
  const [deleting, setDeleting] = useState(false);
  const queue = useQuery(queueQuery(id));
  const queues = useQuery(queuesQuery(project));
  const stats = useQuery({ ...statsQuery(project), refetchInterval: useRhythm(2_000) });
  if (queue.error) return <ErrorNotice error={queue.error} retry={() => void queue.refetch()} />;
  if (queue.data === undefined) return <Loading />;
  const one = queue.data;
  const figures = stats.data?.find((each) => each.queue_id === one.id);
  const isDead = deadLetterQueues(queues.data ?? []).has(one.id);
  const setState = async (paused: boolean) => {
    await setPaused(one.id, paused);
    tell(`${one.name} is ${paused ? "paused" : "resumed"}`, () => void setPaused(one.id, !paused));
  };
  return (
    <>
      <p className="crumbs"><To page="queues">Queues</To> ›</p>
      <header className="page">
        <h1><Shape status={one.is_active ? "online" : "paused"} /> <Name>{one.name}</Name></h1>
        {!one.is_active && <span className="tone-warning">paused <Time at={one.updated_at} /></span>}
        <span className="gap" />
        {may("queue:write") && (one.is_active ? <Action act={() => setState(true)}>Pause</Action> : <Action className="primary" act={() => setState(false)}>Resume</Action>)}
        {may("job:write") && <To page="enqueue" search={{ queue: one.name }} className="button">Enqueue</To>}
        {may("queue:write") && <button type="button" className="quiet-danger" onClick={() => setDeleting(true)}>Delete…</button>}
      </header>
      {one.description && <p className="faint">{one.description}</p>}
      <dl className="figures">
        <Count name="waiting" value={figures?.pending} queue={one} status="pending" />
        <Count name="running" value={figures?.processing} queue={one} status="processing" of={(one.settings as Record<string, unknown>).max_concurrent_jobs} />
        <Count name="scheduled" value={figures?.scheduled} queue={one} status="scheduled" />
        <Count name="failed" value={figures?.failed} queue={one} status="failed" />
        <Count name="succeeded" value={figures?.succeeded} queue={one} status="succeeded" />
        <div><dt>oldest waits</dt><dd>{figures?.oldest_pending_seconds == null ? "–" : span(figures.oldest_pending_seconds)}</dd></div>
      </dl>
      <Foretold queue={one} />
      <nav className="tabs" aria-label="Parts of the queue">
        {TABS.filter(([name]) => name !== "served" || may("worker:read")).map(([name, label]) => (
          <To key={name} page={`queues/${one.id}`} search={name === "stats" ? {} : { tab: name }} className={tab === name ? "here" : undefined}>{label}</To>
        ))}
      </nav>
      {tab === "settings" ? (
        <QueueSettings key={one.id} queue={one} queues={queues.data ?? []} readOnly={!may("queue:write")} />
      ) : tab === "served" ? (
        <Served queue={one} />
      ) : tab === "dead" ? (
        <DeadLetters queue={one} isDead={isDead} />
      ) : (
        <>
          <Charts of={{ project: one.project, queue: one.id }} period={period} page={`queues/${one.id}`} />
          <section><h2>Newest jobs</h2><Recent queue={one} /></section>
        </>
      )}
      {deleting && <DeleteQueue queue={one} onClose={() => setDeleting(false)} />}
    </>
  );
}

/** One sentence on what comes. */
function Foretold({ queue }: { queue: QueueView }) {
  const forecast = useQuery(forecastQuery(queue.id)).data;
  if (forecast === undefined || forecast.outlook === "empty") return null;
  const wait = waitOf(forecast);
  return (
    <p className={isBad(forecast) ? "foretold warn" : "foretold"}>
      <span className="strong">{sentence(outlookOf(forecast))}</span>
      {wait !== null && forecast.outlook !== "paused" && `. A job that comes now waits ${wait}`}
      <span className="faint"> · of the last 15 minutes: {count(Math.round(forecast.arrived_per_minute))} a minute came, {count(Math.round(forecast.ended_per_minute))} ended</span>
    </p>
  );
}

const sentence = (text: string): string => text[0]!.toUpperCase() + text.slice(1);

function Count({ name, value, queue, status, of }: { name: string; value: number | undefined; queue: QueueView; status: string; of?: unknown }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd><To page="jobs" search={{ queue: queue.name, status }}>{count(value)}</To>{typeof of === "number" && <span className="faint"> of {count(of)}</span>}</dd>
    </div>
  );
}

function Recent({ queue }: { queue: QueueView }) {
  const rhythm = useRhythm(3_000);
  const recent = useQuery({
    queryKey: ["jobs", "recent", queue.id],
    queryFn: () => data(api.GET("/api/v1/jobs", { params: { query: { queue: [queue.id], limit: 15 } } })).then((one) => one.items),
    refetchInterval: rhythm,
  });
  if (recent.error) return <ErrorNotice error={recent.error} />;
  if (recent.data === undefined) return <Loading />;
  if (recent.data.length === 0) return <Empty title="No job came to this queue yet." command={`taskforge enqueue hello --payload '{"name": "you"}' --queue ${queue.name}`} />;
  return (
    <>
      <RecentJobs jobs={recent.data} />
      <p><To page="jobs" search={{ queue: queue.name }}>All its jobs ›</To></p>
    </>
  );
}


function Served({ queue }: { queue: QueueView }) {
  const serving = useQuery({ ...servingQuery(queue.id), refetchInterval: useRhythm(5_000) });
  if (serving.error) return <ErrorNotice error={serving.error} />;
  if (serving.data === undefined) return <Loading rows={3} />;
  if (serving.data.length === 0)
    return <Empty title="No worker that is online serves this queue." command={`taskforge worker app:forge --queues ${queue.name}`}>A worker serves every queue unless it is told which; a queue with assignments is served by those workers alone.</Empty>;
  return (
    <table className="rows">
      <thead><tr><th>worker</th><th>load</th><th className="number">weight</th></tr></thead>
      <tbody>
        {serving.data.map((one) => (
          <tr key={one.worker_id}>
            <td><To page={`workers/${one.worker_id}`} className="row-link"><Name>{one.name}</Name></To></td>
            <td><Load active={one.active} max={one.max} /></td>
            <td className="number">{one.weight}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function DeleteQueue({ queue, onClose }: { queue: QueueView; onClose: () => void }) {
  const go = useGo();
  return (
    <Confirm
      title={`Delete ${queue.name}?`}
      action="Delete the queue"
      danger
      typed={queue.name}
      onClose={onClose}
      onConfirm={async () => {
        await data(api.DELETE("/api/v1/queues/{queue}", { params: { path: { queue: queue.id } } }));
        await queryClient.invalidateQueries({ queryKey: ["queues"] });
        go("queues");
      }}
    >
      <p>Its waiting jobs are cancelled; its history is kept as long as the store keeps any. This cannot be undone.</p>
    </Confirm>
  );
}
