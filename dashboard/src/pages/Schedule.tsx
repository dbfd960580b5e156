import { useQuery } from "@tanstack/react-query";
import { useParams } from "@tanstack/react-router";
import { useState } from "react";
import { api, data } from "../api/client";
import { useRhythm } from "../api/live";
import { queryClient } from "../api/queries";
import { useMay } from "../api/session";
import { calendar, duration, localZone } from "../lib/time";
import { usePreferences } from "../lib/preferences";
import { To, useGo } from "../shell/scope";
import { Action } from "../ui/Action";
import { Confirm } from "../ui/Dialog";
import { ErrorNotice, Loading, useToasts } from "../ui/feedback";
import { JsonView } from "../ui/JsonView";
import { Shape, Status } from "../ui/Status";
import { Name, Time } from "../ui/text";
import { runNow, setSchedulePaused, whenOf } from "./Schedules";

const SLOT_SHAPES: Record<string, string> = { fired: "succeeded", ran: "succeeded", skipped: "cancelled", missed: "warning", failed: "failed", refused: "failed", queued: "pending", replaced: "warning" };

export function Schedule() {
  const { schedule: id } = useParams({ strict: false }) as { schedule: string };
  const may = useMay();
  const go = useGo();
  const { tell } = useToasts();
  const mine = usePreferences().zone || localZone();
  const [deleting, setDeleting] = useState(false);
  const path = { path: { schedule: id } };
  const schedule = useQuery({ queryKey: ["schedule", id], queryFn: () => data(api.GET("/api/v1/schedules/{schedule}", { params: path })), refetchInterval: useRhythm(5_000) });
  const slots = useQuery({ queryKey: ["slots", id], queryFn: () => data(api.GET("/api/v1/schedules/{schedule}/slots", { params: { ...path, query: { limit: 30 } } })).then((one) => one.items), refetchInterval: useRhythm(5_000) });
  const next = useQuery({ queryKey: ["schedule", id, "preview", schedule.data?.version, schedule.data?.next_at], queryFn: () => data(api.GET("/api/v1/schedules/{schedule}/preview", { params: { ...path, query: { count: 5 } } })).then((one) => one.items), enabled: schedule.data !== undefined });
  if (schedule.error && schedule.data === undefined) return <ErrorNotice error={schedule.error} retry={() => void schedule.refetch()} />;
  if (schedule.data === undefined) return <Loading />;
  const one = schedule.data;
  const pause = async (paused: boolean) => {
    await setSchedulePaused(one.id, paused);
    tell(`${one.name} is ${paused ? "paused" : "resumed"}`, () => void setSchedulePaused(one.id, !paused));
  };
  return (
    <>
      <p className="crumbs"><To page="schedules">Schedules</To> ›</p>
      <header className="page">
        <h1><Shape status={one.is_paused ? "paused" : "scheduled"} /> <Name>{one.name}</Name></h1>
        {one.is_paused && <span className="tone-warning">paused</span>}
        <span className="gap" />
        {may("job:write") && (
          <>
            <Action className="primary" act={async () => { const job = await runNow(one.id); tell("it runs now"); if (job !== null) go(`jobs/${job}`); }}>Run now</Action>
            {one.is_paused ? <Action act={() => pause(false)}>Resume</Action> : <Action act={() => pause(true)}>Pause</Action>}
            <button type="button" className="quiet-danger" onClick={() => setDeleting(true)}>Delete…</button>
          </>
        )}
      </header>
      {one.description && <p className="faint">{one.description}</p>}
      <p className="verdict-line">{whenOf(one)} makes <b><Name>{one.job_type}</Name></b> in <Name>{one.queue}</Name>{!one.is_paused && one.next_at && <>, next <Time at={one.next_at} /></>}</p>
      <div className="beside">
        <section>
          <h2>Next runs</h2>
          {one.is_paused && <p className="faint">It is paused; resumed, these would come.</p>}
          <ol className="next">
            {(next.data ?? []).map((at) => (
              <li key={at}><span>{calendar(at, one.zone)}</span>{mine !== one.zone && <span className="faint"> {calendar(at, mine)}</span>}</li>
            ))}
          </ol>
        </section>
        <section>
          <h2>Rules</h2>
          <dl className="facts one">
            <div><dt>late slots</dt><dd>{{ skip: "are left out", once: "run once", all: `all run, up to ${one.catch_up_limit}` }[one.catch_up] ?? one.catch_up}</dd></div>
            <div><dt>overlap</dt><dd>{{ allow: "may run beside the last one", skip: "is left out while the last one runs", replace: "cancels the last one", queue: "waits for the last one" }[one.overlap] ?? one.overlap}</dd></div>
            {one.jitter_seconds > 0 && <div><dt>spread</dt><dd>up to {duration(one.jitter_seconds)}</dd></div>}
            {one.declared_by && <div><dt>declared by</dt><dd>{one.declared_by}</dd></div>}
          </dl>
          <h2>Payload</h2>
          {one.redacted ? <p className="faint">Hidden: it needs the right <code>job:payload</code>.</p> : <JsonView source={JSON.stringify(one.payload ?? null)} name="payload" />}
        </section>
      </div>
      <section>
        <h2>What its slots did</h2>
        {slots.data?.length === 0 && <p className="faint">No slot has come yet.</p>}
        {slots.data && slots.data.length > 0 && (
          <table className="rows">
            <thead><tr><th>slot</th><th>did</th><th>job</th><th className="wide-only">why</th><th className="number">fired</th></tr></thead>
            <tbody>
              {slots.data.map((slot) => (
                <tr key={slot.at + slot.fired_at}>
                  <td><Time at={slot.at} />{slot.manual && <span className="faint"> by hand</span>}</td>
                  <td><Status status={SLOT_SHAPES[slot.outcome] ?? "pending"} word={slot.outcome} /></td>
                  <td>{slot.job && <To page={`jobs/${slot.job}`} className="row-link">job ›</To>}</td>
                  <td className="wide-only cut">{slot.detail}</td>
                  <td className="number"><Time at={slot.fired_at} /></td>
                </tr>
              ))}
            </tbody>
          </table>
        )}
      </section>
      {deleting && (
        <Confirm title={`Delete ${one.name}?`} action="Delete it" danger onClose={() => setDeleting(false)} onConfirm={async () => {
          await data(api.DELETE("/api/v1/schedules/{schedule}", { params: path }));
          await queryClient.invalidateQueries({ queryKey: ["schedules"] });
          go("schedules");
        }}>
          <p>It makes no more jobs; those that it made stay. This cannot be undone.</p>
        </Confirm>
      )}
    </>
  );
}
