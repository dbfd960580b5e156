/** The scaling policy of one queue: wanted against there, what it decided and by which figures. */
import { useQuery } from "@tanstack/react-query";
import { useParams } from "@tanstack/react-router";
import { lazy, Suspense, useState } from "react";
import { api, data, type Schemas } from "../api/client";
import { useRhythm } from "../api/live";
import { queryClient, queueQuery } from "../api/queries";
import { useMay } from "../api/session";
import { count, plain } from "../lib/format";
import { To, useGo } from "../shell/scope";
import { Action } from "../ui/Action";
import { Confirm } from "../ui/Dialog";
import { ErrorNotice, Loading, useToasts } from "../ui/feedback";
import { Shape, Status } from "../ui/Status";
import { Name, Time } from "../ui/text";
import { ScalingForm } from "./ScalingForm";
import { stateOf, type Policy } from "./ScalingList";

const Chart = lazy(() => import("../ui/Chart"));
type Figures = Schemas["ScalingFigures"];

const NEWS: Record<string, [string, string]> = {
  scale_up: ["processing", "more"],
  scale_down: ["succeeded", "fewer"],
  would_scale_up: ["scheduled", "would be more"],
  would_scale_down: ["scheduled", "would be fewer"],
  stopped: ["cancelled", "stopped"],
  kept: ["online", "kept"],
  missing: ["warning", "missing"],
  failed: ["failed", "failed"],
};

const path = (queue: string) => ({ params: { path: { queue } } });
/** A queue that has none yet is no error: the form makes it. */
const policyQuery = (queue: string) => ({
  queryKey: ["scaling", "one", queue],
  queryFn: async (): Promise<Policy | null> => {
    const all = await data(api.GET("/api/v1/scaling", { params: { query: { limit: 1_000 } } }));
    return all.items.find((one) => one.queue_id === queue) ?? null;
  },
});

export function Scaling() {
  const { queue: id } = useParams({ strict: false }) as { queue: string };
  const may = useMay();
  const go = useGo();
  const { tell } = useToasts();
  const [deleting, setDeleting] = useState(false);
  const queue = useQuery(queueQuery(id));
  const policy = useQuery({ ...policyQuery(id), refetchInterval: useRhythm(5_000) });
  const error = queue.error ?? policy.error;
  if (error && (queue.data === undefined || policy.data === undefined)) return <ErrorNotice error={error} retry={() => { void queue.refetch(); void policy.refetch(); }} />;
  if (queue.data === undefined || policy.data === undefined) return <Loading />;
  const one = policy.data;
  const write = may("queue:write");
  const edit = async (body: { is_paused?: boolean; is_dry_run?: boolean }, told: string) => {
    await data(api.PATCH("/api/v1/queues/{queue}/scaling", { ...path(id), body }));
    await queryClient.invalidateQueries({ queryKey: ["scaling"] });
    tell(told);
  };
  const [shape, word] = one === null ? ["pending", "no policy yet"] : stateOf(one);
  return (
    <>
      <p className="crumbs"><To page="scaling">Autoscaling</To> › <To page={`queues/${id}`}>queue</To></p>
      <header className="page">
        <h1><Shape status={shape} /> <Name>{queue.data.name}</Name></h1>
        <span className="faint">{word}</span>
        <span className="gap" />
        {write && one !== null && (
          <>
            {one.is_paused ? <Action className="primary" act={() => edit({ is_paused: false }, "it scales again")}>Resume</Action> : <Action act={() => edit({ is_paused: true }, "it starts and stops nothing now")}>Pause</Action>}
            {one.provider !== "none" && (one.is_dry_run ? <Action act={() => edit({ is_dry_run: false }, "what it says is done now")}>End the dry run</Action> : <Action act={() => edit({ is_dry_run: true }, "it only says what it would do")}>Dry run</Action>)}
            <button type="button" className="quiet-danger" onClick={() => setDeleting(true)}>Delete…</button>
          </>
        )}
      </header>
      {one !== null && <Standing policy={one} />}
      {one !== null && <Series queue={id} />}
      {one !== null && <History queue={id} />}
      <section>
        <h2>{one === null ? "A new policy" : "The policy"}</h2>
        {one === null && !write ? <p className="faint">It has none.</p> : <ScalingForm key={one?.version ?? 0} queue={id} policy={one} readOnly={!write} />}
      </section>
      {deleting && (
        <Confirm title={`Take the policy of ${queue.data.name} away?`} action="Take it away" danger onClose={() => setDeleting(false)} onConfirm={async () => {
          await data(api.DELETE("/api/v1/queues/{queue}/scaling", path(id)));
          // nothing asks for the figures of a policy that is gone
          queryClient.setQueryData(policyQuery(id).queryKey, null);
          await queryClient.invalidateQueries({ queryKey: ["scaling"], refetchType: "none" });
          go("scaling");
        }}>
          <p>Its workers stay as they are, and what it decided stays in the history.</p>
        </Confirm>
      )}
    </>
  );
}

/** What it says now, by the figures that it goes by. */
function Standing({ policy }: { policy: Policy }) {
  const { state } = policy;
  const advice = useQuery({ queryKey: ["scaling", "advice", policy.queue_id], queryFn: () => data(api.GET("/api/v1/queues/{queue}/scaling/advice", path(policy.queue_id))), refetchInterval: useRhythm(5_000) });
  if (advice.error && advice.data === undefined) return <ErrorNotice error={advice.error} />;
  if (advice.data === undefined) return <Loading rows={3} />;
  const { action, count: number, desired, coming, missing, reason, figures } = advice.data;
  const says = action === "hold" ? "holds" : `wants ${number} ${action === "scale_up" ? "more" : "fewer"}`;
  return (
    <>
      <p className="verdict-line"><b>{says}</b> · {reason}</p>
      {state.error !== null && <p className="notice bad">Its provider did not do what it was asked: {plain(state.error)}{state.retry_at && <>; it is asked again <Time at={state.retry_at} /></>}</p>}
      <dl className="figures">
        <div><dt>wanted</dt><dd>{count(desired)} <span className="faint">of {policy.min_workers}–{policy.max_workers}</span></dd></div>
        <div><dt>there</dt><dd>{count(figures.workers)}</dd></div>
        <div><dt>on their way</dt><dd>{count(coming)}</dd></div>
        {missing > 0 && <div><dt>did not come</dt><dd className="warn">{count(missing)}</dd></div>}
        {state.draining.length > 0 && <div><dt>draining</dt><dd>{count(state.draining.length)}</dd></div>}
        <div><dt>jobs</dt><dd>{count(figures.length)}</dd></div>
        <div><dt>slots busy</dt><dd>{figures.slots === 0 ? "–" : `${Math.round(figures.utilization_percent)} %`}</dd></div>
        <div><dt>arrive</dt><dd>{figures.arrivals_per_second.toFixed(1)}<span className="faint">/s</span></dd></div>
        {state.last_up && <div><dt>last rise</dt><dd><Time at={state.last_up} /></dd></div>}
        {state.last_down && <div><dt>last fall</dt><dd><Time at={state.last_down} /></dd></div>}
      </dl>
    </>
  );
}

function Series({ queue }: { queue: string }) {
  const series = useQuery({ queryKey: ["scaling", "series", queue], queryFn: () => data(api.GET("/api/v1/queues/{queue}/scaling/series", { params: { path: { queue }, query: { points: 300 } } })).then((one) => one.items), refetchInterval: 15_000 });
  const points = series.data ?? [];
  if (points.length < 2) return null;
  const times = points.map((one) => Date.parse(one.at) / 1000);
  const last = points.at(-1)!;
  const whole = (value: number) => count(Math.round(value));
  return (
    <section aria-label="Charts">
      <h2>Last hour</h2>
      <Suspense fallback={<div className="charts" aria-busy="true" />}>
        <div className="charts">
          <Chart title="workers" now={`${last.actual} of ${last.desired} wanted`} times={times} tell={whole} steps lines={[{ label: "wanted", tone: "neutral", dashed: true, values: points.map((one) => one.desired) }, { label: "there", tone: "accent", values: points.map((one) => one.actual) }]} />
          <Chart title="jobs, pending and processing" now={count(last.length)} times={times} tell={whole} steps lines={[{ label: "jobs", tone: "accent", values: points.map((one) => one.length) }]} />
          <Chart title="slots busy" now={`${Math.round(last.utilization_percent)} %`} times={times} most={100} tell={(value) => `${Math.round(value)} %`} steps lines={[{ label: "busy", tone: "accent", values: points.map((one) => one.utilization_percent) }]} />
        </div>
      </Suspense>
    </section>
  );
}

function History({ queue }: { queue: string }) {
  const history = useQuery({ queryKey: ["scaling", "history", queue], queryFn: () => data(api.GET("/api/v1/queues/{queue}/scaling/history", { params: { path: { queue }, query: { limit: 50 } } })).then((one) => one.items), refetchInterval: useRhythm(5_000) });
  if (history.error) return <ErrorNotice error={history.error} />;
  if (!history.data || history.data.length === 0) return null;
  return (
    <section>
      <h2>What it decided</h2>
      <table className="rows">
        <thead><tr><th>decision</th><th className="number">to</th><th>because</th><th className="number wide-only">jobs</th><th className="number wide-only">workers</th><th className="number wide-only">slots busy</th><th className="number wide-only">arrive</th><th className="number">at</th></tr></thead>
        <tbody>
          {history.data.map((one) => {
            const [shape, word] = NEWS[one.news] ?? ["pending", one.news];
            return (
              <tr key={one.at + one.news + one.desired}>
                <td><Status status={shape} word={`${word}${one.count > 0 ? ` ${one.count}` : ""}`} /></td>
                <td className="number">{one.desired}</td>
                <td className="words">{one.reason}</td>
                <Seen figures={one.figures} />
                <td className="number"><Time at={one.at} /></td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </section>
  );
}

function Seen({ figures }: { figures: Figures | null }) {
  if (figures === null) return <td className="wide-only" colSpan={4} />;
  return (
    <>
      <td className="number wide-only" title={`${figures.pending} pending, ${figures.processing} processing`}>{count(figures.length)}</td>
      <td className="number wide-only">{count(figures.workers)}</td>
      <td className="number wide-only">{Math.round(figures.utilization_percent)} %</td>
      <td className="number wide-only">{figures.arrivals_per_second.toFixed(1)}/s</td>
    </>
  );
}
