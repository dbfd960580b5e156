/** Which processes share the store, who leads, whose upkeep is late. */
import { useQuery } from "@tanstack/react-query";
import { useRhythm } from "../api/live";
import { api, data } from "../api/client";
import { clusterQuery } from "../api/queries";
import { duration, span } from "../lib/time";
import { ErrorNotice, Loading } from "../ui/feedback";
import { Shape, Status } from "../ui/Status";
import { Exact, Name, Time } from "../ui/text";

interface Service {
  name: string;
  seconds_ago?: number | null;
  took_seconds?: number | null;
  is_late?: boolean;
}

export function Cluster() {
  const cluster = useQuery({ ...clusterQuery, refetchInterval: useRhythm(3_000) });
  const ready = useQuery({ queryKey: ["ready"], queryFn: () => data(api.GET("/readyz")), refetchInterval: useRhythm(5_000), retry: false });
  if (cluster.error && cluster.data === undefined) return <ErrorNotice error={cluster.error} retry={() => void cluster.refetch()} />;
  if (cluster.data === undefined) return <Loading />;
  const { nodes, leader, term, since } = cluster.data;
  const leads = nodes.find((one) => one.id === leader);
  const silent = nodes.filter((one) => one.is_silent);
  const late = ready.data?.late ?? [];
  const versions = new Set(nodes.map((one) => one.version));
  const wrong = [
    leads === undefined ? "no node leads: schedules do not fire" : leads.is_silent ? `the leader ${leads.name} is silent; another takes over when its lease is over` : null,
    silent.length > 0 ? `${silent.map((one) => one.name).join(", ")} ${silent.length === 1 ? "is" : "are"} silent` : null,
    late.length > 0 ? `late: ${late.join(", ")}` : null,
    versions.size > 1 ? `nodes run different versions: ${[...versions].join(", ")}` : null,
  ].filter((one) => one !== null);
  return (
    <>
      <header className="page"><h1>Cluster</h1></header>
      <p className="verdict-line"><Shape status={wrong.length === 0 ? "succeeded" : "warning"} /> {wrong.length === 0 ? "Every node is heard of, and one of them leads." : wrong.join(" · ")}</p>
      <dl className="figures">
        <div><dt>leader</dt><dd>{leads ? <Name>{leads.name}</Name> : "–"}</dd></div>
        <div><dt>term</dt><dd>{term}</dd></div>
        <div><dt>leads since</dt><dd><Time at={since} /></dd></div>
        <div><dt>nodes</dt><dd>{nodes.length}</dd></div>
      </dl>
      <table className="rows">
        <thead><tr><th>node</th><th>state</th><th className="wide-only">roles</th><th className="wide-only">host</th><th>version</th><th className="number">joined</th><th className="number">heard of</th></tr></thead>
        <tbody>
          {nodes.map((one) => (
            <tr key={one.id}>
              <td><b><Name>{one.name}</Name></b>{one.is_leader && <span className="tone-accent"> leads</span>}</td>
              <td><Status status={one.is_silent ? "unhealthy" : "online"} word={one.is_silent ? "silent" : "up"} /></td>
              <td className="wide-only">{one.roles.join(", ")}</td>
              <td className="wide-only">{one.host}, {one.pid}{one.address && ` · ${one.address}`}</td>
              <td>{one.version}</td>
              <td className="number"><Time at={one.joined_at} /></td>
              <td className="number"><Time at={one.seen_at} /></td>
            </tr>
          ))}
        </tbody>
      </table>
      <section>
        <h2>Upkeep</h2>
        {nodes.map((one) => <Services key={one.id} name={one.name} services={one.services} />)}
        <p className="small faint">By the store's clock it is <Exact at={cluster.data.now} />. <code>taskforge doctor</code> examines the store and says what to do.</p>
      </section>
    </>
  );
}

/** What a node tells of the work that keeps the store in order. */
function Services({ name, services }: { name: string; services: unknown }) {
  const rows = (Array.isArray(services) ? services : []) as Service[];
  if (rows.length === 0) return null;
  return (
    <table className="rows upkeep">
      <thead><tr><th>on <Name>{name}</Name></th><th>state</th><th className="number">last</th><th className="number">took</th></tr></thead>
      <tbody>
        {rows.map((one) => (
          <tr key={one.name}>
            <td>{one.name}</td>
            <td>{one.is_late ? <Status status="warning" word="late" /> : <span className="faint">in time</span>}</td>
            <td className="number">{one.seconds_ago == null ? "–" : one.seconds_ago < 1 ? "now" : `${span(one.seconds_ago)} ago`}</td>
            <td className="number">{one.seconds_ago === 0 ? <span className="faint">runs on</span> : one.took_seconds == null ? "–" : duration(one.took_seconds)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
