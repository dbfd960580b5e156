/** Is it well? If not: what is wrong, in order of harm, and which button mends it. */
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { useSearch } from "@tanstack/react-router";
import { moveCircuit, setDraining, setPaused } from "../api/actions";
import { api, data, type Circuit, type QueueStats, type Worker } from "../api/client";
import { useRhythm } from "../api/live";
import { alertsQuery, heldCircuitsQuery, queuesQuery, statsQuery, workersQuery, type Project } from "../api/queries";
import { useMay } from "../api/session";
import { useNow } from "../lib/clock";
import { count } from "../lib/format";
import { span } from "../lib/time";
import { To, useScope } from "../shell/scope";
import { Action } from "../ui/Action";
import { ErrorNotice, Loading, useToasts } from "../ui/feedback";
import { Shape } from "../ui/Status";
import { Name, Time } from "../ui/text";
import { FiringAlert, firingOf } from "./Alerts";
import { deadLetterQueues, findCauses, isUp, type Cause } from "./causes";
import { Charts } from "./Charts";
import { subjectOf } from "./Circuits";
import { groupsQuery, GroupTable } from "./Failures";
import { FirstRun } from "./FirstRun";
import { QueueTable } from "./QueueTable";

const HOUR = 3_600_000;
const recentFailures = (project: Project) => ({
  queryKey: ["jobs", "failures", project],
  queryFn: () =>
    data(
      api.GET("/api/v1/jobs", {
        params: { query: { project, status: ["failed"], created_after: new Date(Date.now() - HOUR).toISOString(), limit: 100 } },
      }),
    ).then((one) => one.items),
});

export function Overview() {
  const { project } = useScope();
  const { period = "1h" } = useSearch({ strict: false }) as { period?: string };
  const may = useMay();
  const rhythm = useRhythm(2_000);
  const stats = useQuery({ ...statsQuery(project), refetchInterval: rhythm });
  const queues = useQuery(queuesQuery(project));
  const workers = useQuery({ ...workersQuery(project), enabled: may("worker:read"), refetchInterval: useRhythm(5_000) });
  const failures = useQuery({ ...recentFailures(project), enabled: may("job:read"), refetchInterval: useRhythm(10_000, 10_000) });
  const alerts = useQuery({ ...alertsQuery(project), refetchInterval: useRhythm(10_000, 10_000) });
  const circuits = useQuery({ ...heldCircuitsQuery(project), refetchInterval: useRhythm(5_000, 10_000) });
  if (stats.error && stats.data === undefined) return <ErrorNotice error={stats.error} retry={() => void stats.refetch()} />;
  if (stats.data === undefined || queues.data === undefined) return <Loading />;
  const total = (name: "pending" | "scheduled" | "processing" | "failed" | "total") => stats.data.reduce((sum, one) => sum + one[name], 0);
  const up = (workers.data ?? []).filter(isUp);
  const causes = findCauses({
    stats: stats.data,
    workers: workers.data,
    failures: failures.data ?? [],
    deadLetters: deadLetterQueues(queues.data),
  });
  const firing = firingOf(alerts.data);
  const held = circuits.data ?? [];
  const needs = causes.length + firing.length + held.length;
  if (total("total") === 0) return <FirstRun workers={up} />;
  const busy = up.reduce((sum, one) => sum + one.active_jobs, 0);
  const slots = up.reduce((sum, one) => sum + one.max_concurrent_jobs, 0);
  return (
    <>
      <h1 className="verdict">
        <Shape status={needs === 0 ? "succeeded" : firing.length > 0 || causes.some((one) => one.bad) ? "failed" : "warning"} />
        {needs === 0 ? "All is well" : needs === 1 ? "1 thing needs you" : `${needs} things need you`}
      </h1>
      {needs === 0 ? (
        <p className="faint">Nothing is paused that has work, no job waits long, no worker is in trouble.</p>
      ) : (
        <ul className="causes">
          {firing.slice(0, 5).map((rule) => <FiringAlert key={rule.id} rule={rule} />)}
          {held.map((circuit) => <HeldCircuit key={`${circuit.queue_id} ${circuit.job_type} ${circuit.dependency}`} circuit={circuit} />)}
          {causes.map((cause) => <CauseLine key={cause.key} cause={cause} stats={stats.data} workers={workers.data ?? []} />)}
        </ul>
      )}
      <dl className="figures">
        <Figure name="waiting" value={count(total("pending"))} page="jobs" search={{ status: "pending" }} />
        <Figure name="running" value={count(total("processing"))} page="jobs" search={{ status: "processing" }} />
        <Figure name="scheduled" value={count(total("scheduled"))} page="jobs" search={{ status: "scheduled" }} />
        <Figure name="failed in an hour" value={failures.data === undefined ? "–" : failures.data.length >= 100 ? "100+" : count(failures.data.length)} page="jobs" search={{ status: "failed", last: "1h" }} />
        {workers.data && <Figure name="workers up" value={`${up.length} of ${workers.data.filter((one) => one.status !== "offline").length || up.length}`} page="workers" />}
        {workers.data && <Figure name="slots busy" value={slots === 0 ? "–" : `${Math.round((100 * busy) / slots)} %`} page="workers" />}
      </dl>
      <Charts of={{ project }} period={period} page="" />
      <section>
        <h2>Queues</h2>
        <QueueTable queues={queues.data} stats={stats.data} most={12} />
      </section>
      {may("job:read") && <Lately />}
      {may("admin:read") && <Changed />}
    </>
  );
}

function Figure({ name, value, page, search }: { name: string; value: string; page: string; search?: Record<string, unknown> }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd><To page={page} search={search}>{value}</To></dd>
    </div>
  );
}

function CauseLine({ cause, stats, workers }: { cause: Cause; stats: QueueStats[]; workers: Worker[] }) {
  const may = useMay();
  const now = useNow();
  const { tell } = useToasts();
  const queue = stats.find((one) => one.queue_id === cause.queue);
  const worker = workers.find((one) => one.id === cause.worker);
  return (
    <li>
      <Shape status={cause.shape} />
      <span className="what"><b><Name>{cause.subject}</Name></b> {cause.text}{cause.oldest !== undefined && <span className="faint">, oldest {span(cause.oldest)}</span>}{cause.since && now > 0 && <span className="faint">, last <Time at={cause.since} /></span>}</span>
      <span className="do">
        {cause.remedy === "resume" && queue && may("queue:write") && (
          <Action
            className="primary"
            act={async () => {
              await setPaused(queue.queue_id, false);
              tell(`${queue.queue} is resumed`, () => void setPaused(queue.queue_id, true));
            }}
          >
            Resume
          </Action>
        )}
        {cause.remedy === "undrain" && worker && may("worker:write") && (
          <Action className="primary" act={() => setDraining(worker, false)}>Let it work</Action>
        )}
        <To page={cause.page} search={cause.search}>{cause.link} ›</To>
      </span>
    </li>
  );
}

function HeldCircuit({ circuit }: { circuit: Circuit }) {
  const may = useMay();
  const subject = subjectOf(circuit);
  const place = circuit.dependency === null ? <>in <Name>{circuit.queue ?? ""}</Name></> : <>for {circuit.job_types.join(", ") || "no job type"}</>;
  return (
    <li>
      <Shape status="warning" />
      <span className="what">
        Circuit <b><Name>{subject}</Name></b> {place} {circuit.mode === "open" ? "hands nothing out" : "lets a few probes through"}
        <span className="faint">{circuit.is_forced ? ", by hand" : circuit.failed + circuit.succeeded === 0 ? "" : `, ${circuit.failed} of ${circuit.failed + circuit.succeeded} failed`}{circuit.since && <>, since <Time at={circuit.since} /></>}</span>
      </span>
      <span className="do">{may("queue:write") && <Action className="primary" act={() => moveCircuit(circuit, "close")}>Close it</Action>} <To page="circuits">Circuits ›</To></span>
    </li>
  );
}

function Lately() {
  const { project } = useScope();
  const groups = useInfiniteQuery({ ...groupsQuery(project, "1h", "last_seen"), refetchInterval: useRhythm(10_000, 10_000) });
  const found = groups.data?.pages[0]?.items ?? [];
  if (found.length === 0) return null;
  return (
    <section>
      <h2>Failed lately</h2>
      <GroupTable groups={found.slice(0, 6)} />
      {found.length > 6 && <p><To page="failures" search={{ since: "1h" }}>All that failed in the last hour ›</To></p>}
    </section>
  );
}

/** What people and programs changed lately in this project: a change is often the cause. */
function Changed() {
  const { project } = useScope();
  const changes = useQuery({ queryKey: ["audit", "lately"], queryFn: () => data(api.GET("/api/v1/audit", { params: { query: { limit: 100 } } })).then((one) => one.items), refetchInterval: useRhythm(15_000, 15_000), retry: false });
  // single jobs have pages of their own
  const own = (changes.data ?? []).filter((one) => !one.action.startsWith("job.") && one.project !== null && (project === undefined || one.project === project)).slice(0, 6);
  if (own.length === 0) return null;
  return (
    <section>
      <h2>Changed lately</h2>
      <ul className="lately">
        {own.map((one) => (
          <li key={one.number}>
            <span className="mono">{one.action}</span>
            <span className="cut"><Name>{one.target}</Name></span>
            <span className="faint">by <Name>{one.actor.replace(/^(user|key):/, "")}</Name></span>
            <Time at={one.at} />
          </li>
        ))}
      </ul>
      <p><To page="settings" search={{ tab: "audit" }}>The audit log ›</To></p>
    </section>
  );
}
