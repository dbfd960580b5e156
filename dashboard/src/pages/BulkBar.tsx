/** What to do with the selected jobs, or with all that match: the number first. */
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api, data, serverNow, type Job } from "../api/client";
import { queryClient } from "../api/queries";
import { isEmpty, type JobFilter } from "../lib/filter";
import { count, counted } from "../lib/format";
import { useScope } from "../shell/scope";
import { Confirm } from "../ui/Dialog";
import { ErrorNotice, useToasts } from "../ui/feedback";
import { Name } from "../ui/text";
import { queryOf } from "./jobList";

type Verb = "retry" | "cancel" | "delete";
type Which = { ids: string[] } | { where: object };
// a call changes so many, so that the dialog can tell how far it is
const SLICE = 5_000;
const EFFECT: Record<Verb, string> = {
  retry: "Finished ones run again from the start; those that wait for a retry run at once.",
  cancel: "Waiting ones end at once; running ones are asked to stop.",
  delete: "Finished ones are removed with their logs and results. This cannot be undone.",
};

interface BulkProps {
  filter: JobFilter;
  jobs: Job[];
  selected: Set<string>;
  clear: () => void;
  done: () => void;
}

export function BulkBar({ filter, jobs, selected, clear, done }: BulkProps) {
  const [asking, setAsking] = useState<{ verb: Verb; all: boolean } | null>(null);
  const verbs: Verb[] = ["retry", "cancel", "delete"];
  return (
    <div className="bulk" role="region" aria-label="Change several jobs">
      {selected.size > 0 && (
        <span>
          {counted(selected.size, "job")} selected{" "}
          {verbs.map((verb) => <button key={verb} type="button" className={verb === "delete" ? "quiet-danger" : undefined} onClick={() => setAsking({ verb, all: false })}>{label(verb)}</button>)}
          <button type="button" className="link" onClick={clear}>Select nothing</button>
        </span>
      )}
      {!isEmpty(filter) && (
        <span>
          All that match{" "}
          {verbs.map((verb) => <button key={verb} type="button" className={verb === "delete" ? "quiet-danger" : undefined} onClick={() => setAsking({ verb, all: true })}>{label(verb)} all…</button>)}
        </span>
      )}
      {asking && <Ask {...asking} filter={filter} jobs={jobs.filter((job) => asking.all || selected.has(job.id))} ids={[...selected]} onClose={() => setAsking(null)} done={() => { clear(); done(); }} />}
    </div>
  );
}

const label = (verb: Verb) => verb[0]!.toUpperCase() + verb.slice(1);

function Ask({ verb, all, filter, jobs, ids, onClose, done: finish }: { verb: Verb; all: boolean; filter: JobFilter; jobs: Job[]; ids: string[]; onClose: () => void; done: () => void }) {
  const { project } = useScope();
  const { tell } = useToasts();
  // what comes in while somebody reads this is not part of it
  const [which] = useState<Which>(() => {
    if (!all) return { ids };
    const { project: _, ...where } = queryOf(filter, project);
    return { where: { ...where, created_before: new Date(serverNow()).toISOString() } };
  });
  const change = (more: object) => data(api.POST("/api/v1/jobs/change", { params: { query: { project } }, body: { action: verb, ...which, ...more } }));
  const would = useQuery({ queryKey: ["dry-run", verb, which], queryFn: () => change({ dry_run: true }), gcTime: 0, staleTime: Infinity });
  const [done, setDone] = useState<number | null>(null);
  const number = would.data === undefined ? "…" : `${count(would.data.changed)}${would.data.more ? "+" : ""}`;
  const act = async () => {
    let [changed, refused, cursor] = [0, 0, null as string | null];
    do {
      const made = await change(all ? { limit: SLICE, cursor } : {});
      changed += made.changed;
      refused += made.refused;
      cursor = made.next_cursor ?? null;
      setDone(changed + refused);
    } while (cursor !== null);
    await queryClient.invalidateQueries();
    tell(`${counted(changed, "job")} changed${refused > 0 ? `, ${count(refused)} refused: they are in another state` : ""}`);
    finish();
  };
  const example = jobs[0];
  return (
    <Confirm title={`${label(verb)} ${number} ${number === "1" ? "job" : "jobs"}?`} action={`${label(verb)} ${number}`} danger={verb !== "retry"} onClose={onClose} onConfirm={act}>
      <p>{EFFECT[verb]}</p>
      {would.data === undefined ? <p className="faint">Counting…</p> : would.data.refused > 0 && <p>{count(would.data.refused)} of those that match are in another state.</p>}
      {would.error && <ErrorNotice error={would.error} />}
      {done !== null && <p className="faint">{count(done)} done…</p>}
      {example && <p className="small faint">Such as <Name>{example.job_type}</Name> in <Name>{example.queue}</Name>, {example.status}.</p>}
    </Confirm>
  );
}
