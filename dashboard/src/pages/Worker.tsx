import { useQuery } from "@tanstack/react-query";
import { useParams, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { setDraining } from "../api/actions";
import { api, data, type Worker as WorkerView } from "../api/client";
import { useRhythm } from "../api/live";
import { queryClient, workerQuery } from "../api/queries";
import { useMay } from "../api/session";
import { bytes, count } from "../lib/format";
import { To, useGo } from "../shell/scope";
import { Action } from "../ui/Action";
import { Confirm } from "../ui/Dialog";
import { ErrorNotice, Loading, useToasts } from "../ui/feedback";
import { Load } from "../ui/Load";
import { Shape, Status } from "../ui/Status";
import { Copy, Exact, Id, Name, Time } from "../ui/text";
import { isUp } from "./causes";
import { Charts } from "./Charts";

export function Worker() {
  const { worker: id } = useParams({ strict: false }) as { worker: string };
  const { period = "1h" } = useSearch({ strict: false }) as { period?: string };
  const may = useMay();
  const go = useGo();
  const { tell } = useToasts();
  const [forgetting, setForgetting] = useState(false);
  const worker = useQuery({ ...workerQuery(id), refetchInterval: useRhythm(2_000) });
  const stats = useQuery({ queryKey: ["worker", id, "stats"], queryFn: () => data(api.GET("/api/v1/workers/{worker_id}/stats", { params: { path: { worker_id: id } } })), refetchInterval: useRhythm(5_000) });
  if (worker.error && worker.data === undefined) return <ErrorNotice error={worker.error} retry={() => void worker.refetch()} />;
  if (worker.data === undefined) return <Loading />;
  const one = worker.data;
  const drain = async (draining: boolean) => {
    await setDraining(one, draining);
    tell(draining ? `${one.name} takes no more jobs` : `${one.name} takes jobs again`, () => void setDraining(one, !draining));
  };
  return (
    <>
      <p className="crumbs"><To page="workers">Workers</To> ›</p>
      <header className="page">
        <h1><Shape status={one.status} /> <Name>{one.name}</Name></h1>
        <Status status={one.status} />
        <span className="gap" />
        {may("worker:write") && isUp(one) && (one.drain_mode ? <Action className="primary" act={() => drain(false)}>Let it work</Action> : <Action act={() => drain(true)}>Drain</Action>)}
        {may("worker:write") && !isUp(one) && <button type="button" className="quiet-danger" onClick={() => setForgetting(true)}>Forget it…</button>}
      </header>
      {one.drain_mode && <p className="notice">It takes no more jobs. {one.active_jobs > 0 ? `${count(one.active_jobs)} still run.` : "Nothing runs on it any more: it can be stopped."}</p>}
      <dl className="figures">
        <div><dt>load</dt><dd><Load active={one.active_jobs} max={one.max_concurrent_jobs} /></dd></div>
        <div><dt>cpu</dt><dd>{one.cpu_percent === null ? "–" : `${Math.round(one.cpu_percent)} %`}</dd></div>
        <div><dt>memory</dt><dd>{bytes(one.memory_bytes)}</dd></div>
        <div><dt>succeeded</dt><dd>{count(stats.data?.completed)}</dd></div>
        <div><dt>failed</dt><dd>{count(stats.data?.failed)}</dd></div>
        {one.stuck_slots > 0 && <div><dt>stuck slots</dt><dd className="warn">{count(one.stuck_slots)}</dd></div>}
      </dl>
      <Charts of={{ project: one.project, worker_id: one.id }} period={period} page={`workers/${one.id}`} worker />
      <section><h2>Running now</h2><Running worker={one} /></section>
      {may("worker:write") && isUp(one) && <section><h2>Slots</h2><Slots key={one.max_concurrent_jobs} worker={one} /></section>}
      <section>
        <h2>Facts</h2>
        <dl className="facts">
          <div><dt>id</dt><dd><span className="mono break">{one.id}</span> <Copy text={one.id} label="Copy the id" /></dd></div>
          <div><dt>host</dt><dd>{one.host}{one.pid !== null && `, process ${one.pid}`}</dd></div>
          <div><dt>version</dt><dd>{one.version || "–"}</dd></div>
          <div><dt>kind</dt><dd>{one.worker_type}{one.role ? `, ${one.role}` : ""}</dd></div>
          <div><dt>heard of</dt><dd><Time at={one.last_heartbeat} /></dd></div>
          <div><dt>registered</dt><dd><Exact at={one.registered_at} /></dd></div>
          <div><dt>serves</dt><dd>{one.queues === null ? "all queues" : one.queues.join(", ")}</dd></div>
          <div><dt>runs</dt><dd>{one.types === null ? "all types" : one.types.join(", ")}</dd></div>
          {Object.keys(one.capabilities).length > 0 && <div><dt>can</dt><dd><code>{JSON.stringify(one.capabilities)}</code></dd></div>}
        </dl>
      </section>
      {forgetting && (
        <Confirm title={`Forget ${one.name}?`} action="Forget it" danger onClose={() => setForgetting(false)} onConfirm={async () => {
          await data(api.DELETE("/api/v1/workers/{worker_id}", { params: { path: { worker_id: one.id } } }));
          await queryClient.invalidateQueries({ queryKey: ["workers"] });
          go("workers");
        }}>
          <p>Its assignments go with it. A worker that starts under this name is a new one.</p>
        </Confirm>
      )}
    </>
  );
}

function Running({ worker }: { worker: WorkerView }) {
  const may = useMay();
  const running = useQuery({
    queryKey: ["jobs", "on", worker.id],
    queryFn: () => data(api.GET("/api/v1/executions/active", { params: { query: { project: worker.project, limit: 500 } } })).then((one) => one.items.filter((each) => each.worker_id === worker.id)),
    refetchInterval: useRhythm(2_000),
    enabled: may("job:read"),
  });
  if (running.error) return <ErrorNotice error={running.error} />;
  if (running.data === undefined) return <Loading rows={2} />;
  if (running.data.length === 0) return <p className="faint">Nothing just now.</p>;
  return (
    <table className="rows">
      <thead><tr><th>job</th><th className="number">attempt</th><th className="number">since</th></tr></thead>
      <tbody>
        {running.data.map((one) => (
          <tr key={one.id}>
            <td><To page={`jobs/${one.job}`} className="row-link"><Id id={one.job} /></To></td>
            <td className="number">{one.attempt_number}</td>
            <td className="number"><Time at={one.started_at ?? one.created_at} /></td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Slots({ worker }: { worker: WorkerView }) {
  const [slots, setSlots] = useState(String(worker.max_concurrent_jobs));
  const { tell } = useToasts();
  const save = async () => {
    await data(api.PATCH("/api/v1/workers/{worker_id}", { params: { path: { worker_id: worker.id } }, body: { max_concurrent_jobs: Number(slots) } }));
    await queryClient.invalidateQueries({ queryKey: ["worker"] });
    tell(`${worker.name} is told`);
  };
  return (
    <p className="inline">
      <input aria-label="How many jobs run at once" inputMode="numeric" value={slots} onChange={(event) => setSlots(event.target.value)} size={5} /> at once, {worker.started_slots} when it was started{" "}
      {slots !== String(worker.max_concurrent_jobs) && <Action className="primary" act={save}>Save</Action>}
    </p>
  );
}
