/** Who runs jobs, who has room, who is in trouble. */
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api, data, type Worker } from "../api/client";
import { useRhythm } from "../api/live";
import { workersQuery } from "../api/queries";
import { bytes, count } from "../lib/format";
import { Sparkline } from "../ui/Sparkline";
import { To, useScope } from "../shell/scope";
import { Empty, ErrorNotice, Loading } from "../ui/feedback";
import { Load } from "../ui/Load";
import { Status } from "../ui/Status";
import { Name, Time } from "../ui/text";
import { isUp } from "./causes";

export function Workers() {
  const { project } = useScope();
  const [past, setPast] = useState(false);
  const [find, setFind] = useState("");
  const workers = useQuery({ ...workersQuery(project), refetchInterval: useRhythm(3_000) });
  if (workers.error && workers.data === undefined) return <ErrorNotice error={workers.error} retry={() => void workers.refetch()} />;
  if (workers.data === undefined) return <Loading />;
  const found = workers.data.filter((one) => one.name.toLowerCase().includes(find.toLowerCase()));
  const up = found.filter(isUp).sort((a, b) => rank(a) - rank(b) || a.name.localeCompare(b.name));
  const gone = found.filter((one) => !isUp(one)).sort((a, b) => (b.last_heartbeat ?? "").localeCompare(a.last_heartbeat ?? ""));
  return (
    <>
      <header className="page">
        <h1>Workers</h1>
        <span className="faint">{count(up.length)} up · {count(up.filter((one) => one.status === "unhealthy").length)} unhealthy · {count(gone.length)} offline</span>
        <span className="gap" />
        {workers.data.length > 8 && <input aria-label="Find a worker" placeholder="find" value={find} onChange={(event) => setFind(event.target.value)} />}
      </header>
      {up.length === 0 ? (
        <Empty title="No worker is online." command="taskforge worker app:forge">Jobs wait until one comes. Over HTTP it needs the server's address in TASKFORGE_URL and a worker key in TASKFORGE_TOKEN.</Empty>
      ) : (
        <WorkerTable workers={up} />
      )}
      {gone.length > 0 && (
        <p><button type="button" className="link" aria-expanded={past} onClick={() => setPast(!past)}>{past ? "Hide" : "Show"} {count(gone.length)} offline</button></p>
      )}
      {past && <WorkerTable workers={gone.slice(0, 200)} />}
    </>
  );
}

const rank = (worker: Worker): number => (worker.status === "unhealthy" ? 0 : worker.status === "draining" ? 1 : 2);

/** What each took of the processor and of memory in the last hour; of one project, as the API has it. */
function useTrends(project: string | undefined): Map<string, { cpu: number[]; memory: number[] }> {
  const trends = useQuery({
    queryKey: ["metrics", "workers", project],
    queryFn: () => data(api.GET("/api/v1/metrics/workers", { params: { query: { project, last_seconds: 3_600, step_seconds: 120, limit: 50 } } })).then((one) => one.items),
    enabled: project !== undefined,
    refetchInterval: 30_000,
  });
  return new Map((trends.data ?? []).map((one) => [one.id ?? "", {
    cpu: one.metrics.series.map((point) => point.figures.cpu_percent.max ?? 0),
    memory: one.metrics.series.map((point) => point.figures.memory_bytes.max ?? 0),
  }]));
}

function WorkerTable({ workers }: { workers: Worker[] }) {
  const { project } = useScope();
  const trends = useTrends(project);
  return (
    <table className="rows">
      <thead><tr><th>status</th><th>worker</th><th>load</th><th className="wide-only">cpu, last hour</th><th className="wide-only">memory</th><th className="number wide-only">heard of</th><th className="wide-only">version</th><th className="wide-only">serves</th></tr></thead>
      <tbody>
        {workers.map((one) => (
          <tr key={one.id}>
            <td><Status status={one.status} word={one.stopping ? "stopping" : undefined} /></td>
            <td><To page={`workers/${one.id}`} className="row-link"><Name>{one.name}</Name></To></td>
            <td><Load active={one.active_jobs} max={one.max_concurrent_jobs} />{one.stuck_slots > 0 && <span className="warn"> {one.stuck_slots} stuck</span>}</td>
            <td className="wide-only trend"><Sparkline values={trends.get(one.id)?.cpu ?? []} label={`What ${one.name} took of a processor in the last hour`} /> <span>{one.cpu_percent === null ? "–" : `${Math.round(one.cpu_percent)} %`}</span></td>
            <td className="wide-only trend"><Sparkline values={trends.get(one.id)?.memory ?? []} label={`What ${one.name} took of memory in the last hour`} /> <span>{bytes(one.memory_bytes)}</span></td>
            <td className="number wide-only"><Time at={one.last_heartbeat} /></td>
            <td className="wide-only">{one.version || "–"}</td>
            <td className="wide-only cut">{one.queues === null ? "all queues" : one.queues.join(", ")}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
