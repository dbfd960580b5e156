/** One way of failing: how often, since when, one of them as it was, and what to do with its jobs. */
import { useQuery } from "@tanstack/react-query";
import { useParams } from "@tanstack/react-router";
import { useState } from "react";
import { api, data } from "../api/client";
import { useRhythm } from "../api/live";
import { queryClient } from "../api/queries";
import { useMay } from "../api/session";
import { count, counted, plain } from "../lib/format";
import { To, useGo } from "../shell/scope";
import { Bars } from "../ui/Bars";
import { Confirm } from "../ui/Dialog";
import { ErrorNotice, Loading, useToasts } from "../ui/feedback";
import { Shape } from "../ui/Status";
import { Exact, Id, Name, Time } from "../ui/text";
import { Failure } from "./Failure";
import { TRENDS } from "./Failures";
import { RecentJobs } from "./RecentJobs";

const SLICE = 5_000;
type Verb = "retry" | "delete";
const EFFECT: Record<Verb, string> = {
  retry: "Those that failed for good run again; dead letters go back to the queues that they came from.",
  delete: "Its failed jobs and its waiting dead letters are removed with their history. This cannot be undone.",
};

function change(verb: Verb, group_id: string, body: object) {
  const asked = { params: { path: { group_id } }, body: body as never };
  return verb === "retry" ? data(api.POST("/api/v1/failures/{group_id}/retry", asked)) : data(api.POST("/api/v1/failures/{group_id}/delete", asked));
}

export function FailureGroup() {
  const { group: id } = useParams({ strict: false }) as { group: string };
  const may = useMay();
  const go = useGo();
  const [asking, setAsking] = useState<Verb | null>(null);
  const group = useQuery({ queryKey: ["failures", "one", id], queryFn: () => data(api.GET("/api/v1/failures/{group_id}", { params: { path: { group_id: id } } })), refetchInterval: useRhythm(5_000) });
  if (group.error && group.data === undefined) return <ErrorNotice error={group.error} retry={() => void group.refetch()} />;
  if (group.data === undefined) return <Loading />;
  const one = group.data;
  const [word, tone] = TRENDS[one.trend] ?? [one.trend, ""];
  const now = one.failed.count + one.dead_letters.count;
  return (
    <>
      <p className="crumbs"><To page="failures">Failures</To> › <To page="failures" search={{ type: one.job_type }}><Name>{one.job_type}</Name></To></p>
      <header className="page">
        <h1><Shape status="failed" /> <Name>{one.is_rest ? "In further ways" : one.error_type}</Name></h1>
        <span className={tone}>{word}</span>
        <span className="gap" />
        {may("job:write") && now > 0 && (
          <>
            <button type="button" className="primary" onClick={() => setAsking("retry")}>Retry all…</button>
            <button type="button" className="quiet-danger" onClick={() => setAsking("delete")}>Delete all…</button>
          </>
        )}
      </header>
      <p className="verdict-line">{plain(one.message)}</p>
      <dl className="figures">
        <div><dt>attempts failed so</dt><dd>{count(one.count)}</dd></div>
        <div><dt>jobs failed now</dt><dd><To page="jobs" search={{ failure_group: one.id, status: "failed" }}>{count(one.failed.count)}{one.failed.more && "+"}</To></dd></div>
        <div><dt>dead letters</dt><dd><To page="jobs" search={{ failure_group: one.id, status: "pending" }}>{count(one.dead_letters.count)}{one.dead_letters.more && "+"}</To></dd></div>
        <div><dt>first</dt><dd><Time at={one.first_seen} /></dd></div>
        <div><dt>last</dt><dd><Time at={one.last_seen} /></dd></div>
      </dl>
      <section>
        <h2>Last {one.hours.length} hours</h2>
        <Bars values={one.hours} label="How often in each hour" wide />
        <p className="small faint ends"><span>{one.hours.length} hours ago</span><span>now</span></p>
        {one.queues.length > 0 && <p className="small">In {one.queues.map((name, at) => <span key={name}>{at > 0 && ", "}<To page="jobs" search={{ queue: name, failure_group: one.id }}><Name>{name}</Name></To></span>)}.</p>}
      </section>
      {one.example && (
        <section>
          <h2>One of them</h2>
          <p className="small"><To page={`jobs/${one.example.job_id}`}>Job <Id id={one.example.job_id} /></To>{one.example.failed_at && <span className="faint">, <Exact at={one.example.failed_at} /></span>}</p>
          <Failure error={{ type: one.example.error_type, message: one.example.message, traceback: one.example.traceback }} open />
        </section>
      )}
      {!one.is_rest && <section><h2>Its jobs</h2><JobsOf group={one.id} /></section>}
      {asking && <Ask verb={asking} group={one.id} name={`${one.job_type}: ${one.error_type}`} onClose={() => setAsking(null)} done={() => asking === "delete" && go("failures")} />}
    </>
  );
}

function JobsOf({ group }: { group: string }) {
  const jobs = useQuery({
    queryKey: ["jobs", "group", group],
    queryFn: () => data(api.GET("/api/v1/jobs", { params: { query: { failure_group: group, limit: 15 } } })).then((one) => one.items),
    refetchInterval: useRhythm(5_000),
  });
  if (jobs.error) return <ErrorNotice error={jobs.error} />;
  if (jobs.data === undefined) return <Loading rows={3} />;
  if (jobs.data.length === 0) return <p className="faint">None is kept any more, or they ran well since.</p>;
  return (
    <>
      <RecentJobs jobs={jobs.data} />
      <p><To page="jobs" search={{ failure_group: group }}>All its jobs ›</To></p>
    </>
  );
}

function Ask({ verb, group, name, onClose, done: finish }: { verb: Verb; group: string; name: string; onClose: () => void; done: () => void }) {
  const { tell } = useToasts();
  const [done, setDone] = useState<number | null>(null);
  const would = useQuery({ queryKey: ["dry-run", verb, group], queryFn: () => change(verb, group, { dry_run: true }), gcTime: 0, staleTime: Infinity });
  const number = would.data === undefined ? "…" : `${count(would.data.changed)}${would.data.more ? "+" : ""}`;
  const act = async () => {
    let [changed, refused, cursor] = [0, 0, null as string | null];
    do {
      const made = await change(verb, group, { limit: SLICE, cursor });
      changed += made.changed;
      refused += made.refused;
      cursor = made.next_cursor ?? null;
      setDone(changed + refused);
    } while (cursor !== null);
    await queryClient.invalidateQueries({ queryKey: ["failures"] });
    await queryClient.invalidateQueries({ queryKey: ["jobs"] });
    tell(`${counted(changed, "job")} ${verb === "retry" ? "sent to run again" : "deleted"}${refused > 0 ? `, ${count(refused)} refused` : ""}`);
    finish();
  };
  const title = verb === "retry" ? "Retry" : "Delete";
  return (
    <Confirm title={`${title} ${number} ${number === "1" ? "job" : "jobs"}?`} action={`${title} ${number}`} danger={verb === "delete"} onClose={onClose} onConfirm={act}>
      <p>{EFFECT[verb]}</p>
      <p className="small faint">Of the group <Name>{name}</Name>.</p>
      {would.data === undefined && <p className="faint">Counting…</p>}
      {would.error && <ErrorNotice error={would.error} />}
      {done !== null && <p className="faint">{count(done)} done…</p>}
    </Confirm>
  );
}
