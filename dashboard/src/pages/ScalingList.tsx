/** How many workers each queue should have, how many there are, and why. */
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api, data, type Schemas } from "../api/client";
import { useRhythm } from "../api/live";
import { queuesQuery } from "../api/queries";
import { useMay } from "../api/session";
import { count } from "../lib/format";
import { To, useGo, useScope } from "../shell/scope";
import { Empty, ErrorNotice, Loading } from "../ui/feedback";
import { Status } from "../ui/Status";
import { Name } from "../ui/text";

export type Policy = Schemas["ScalingView"];

export function stateOf(policy: Policy): [string, string] {
  if (policy.is_paused) return ["paused", "paused"];
  if (policy.state.error !== null) return ["failed", "its provider fails"];
  if (policy.state.missing > 0) return ["warning", `${policy.state.missing} did not come`];
  if (policy.is_dry_run || policy.provider === "none") return ["scheduled", "only advises"];
  return ["online", "scales"];
}

export function ScalingList() {
  const { project } = useScope();
  const may = useMay();
  const go = useGo();
  const [choosing, setChoosing] = useState(false);
  const policies = useQuery({ queryKey: ["scaling", project], queryFn: () => data(api.GET("/api/v1/scaling", { params: { query: { project, limit: 200 } } })).then((one) => one.items), refetchInterval: useRhythm(5_000) });
  const queues = useQuery({ ...queuesQuery(project), enabled: choosing });
  // of one project, as the API has it; of several the list tells what was said last
  const advice = useQuery({ queryKey: ["scaling", "advice", project], queryFn: () => data(api.GET("/api/v1/scaling/advice", { params: { query: { project, limit: 200 } } })).then((one) => one.items), enabled: project !== undefined, refetchInterval: useRhythm(5_000) });
  const says = new Map((advice.data ?? []).map((one) => [one.queue_id, one]));
  if (policies.error && policies.data === undefined) return <ErrorNotice error={policies.error} retry={() => void policies.refetch()} />;
  if (policies.data === undefined) return <Loading />;
  const has = new Set(policies.data.map((one) => one.queue_id));
  return (
    <>
      <header className="page">
        <h1>Autoscaling</h1>
        <span className="gap" />
        {may("queue:write") && (choosing ? (
          <select aria-label="Queue" autoFocus value="" onChange={(event) => go(`scaling/${event.target.value}`)}>
            <option value="">of which queue?</option>
            {(queues.data ?? []).filter((one) => !has.has(one.id)).map((one) => <option key={one.id} value={one.id}>{one.name}</option>)}
          </select>
        ) : <button type="button" className="primary" onClick={() => setChoosing(true)}>New policy</button>)}
      </header>
      {policies.data.length === 0 ? (
        <Empty title="No queue has a scaling policy." command="taskforge scaling set emails --max-workers 8">A policy says how many workers a queue should have for the work that it holds. With a provider it starts and stops them; without one it says what it would do.</Empty>
      ) : (
        <table className="rows">
          <thead><tr><th>queue</th>{project === undefined && <th className="wide-only">project</th>}<th>state</th><th className="number">workers</th><th className="number">wanted</th><th className="number wide-only">bounds</th><th className="wide-only">says</th></tr></thead>
          <tbody>
            {policies.data.map((one) => {
              const [shape, word] = stateOf(one);
              const now = says.get(one.queue_id);
              const there = now?.figures.workers ?? one.state.workers;
              const wanted = now?.desired ?? (one.state.looked_at === null ? null : one.state.desired);
              return (
                <tr key={one.queue_id}>
                  <td><To page={`scaling/${one.queue_id}`} className="row-link"><Name>{one.queue}</Name></To></td>
                  {project === undefined && <td className="wide-only"><Name>{one.project}</Name></td>}
                  <td><Status status={shape} word={word} /></td>
                  <td className="number">{count(there)}{one.state.coming > 0 && <span className="faint"> +{one.state.coming}</span>}</td>
                  <td className={wanted !== null && wanted !== there ? "number tone-accent" : "number"}>{count(wanted)}</td>
                  <td className="number wide-only">{one.min_workers}–{one.max_workers}</td>
                  <td className="wide-only">{(now?.reason ?? one.state.reason) || "not looked at yet"}</td>
                </tr>
              );
            })}
          </tbody>
        </table>
      )}
    </>
  );
}
