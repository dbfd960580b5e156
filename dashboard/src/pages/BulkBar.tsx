/** What to do with the selected jobs, or with all that match: the number first. */
import { useEffect, useState } from "react";
import { cancelJob, deleteJob, forEachJob, retryJob } from "../api/actions";
import { api, data, serverNow, type Job } from "../api/client";
import { queryClient } from "../api/queries";
import { isEmpty, type JobFilter } from "../lib/filter";
import { count, counted } from "../lib/format";
import { useScope } from "../shell/scope";
import { Confirm } from "../ui/Dialog";
import { useToasts } from "../ui/feedback";
import { Name } from "../ui/text";
import { countMatching, queryOf } from "./jobList";

type Verb = "retry" | "cancel" | "delete";
const EACH: Record<Verb, (id: string) => Promise<void>> = { retry: retryJob, cancel: cancelJob, delete: deleteJob };
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

function Ask({ verb, all, filter, jobs, ids, onClose, done }: { verb: Verb; all: boolean; filter: JobFilter; jobs: Job[]; ids: string[]; onClose: () => void; done: () => void }) {
  const { project } = useScope();
  const { tell } = useToasts();
  // what comes in while somebody reads this is not part of it
  const [until] = useState(() => new Date(serverNow()).toISOString());
  const [query] = useState(() => ({ ...queryOf(filter, project), created_before: until }));
  const [found, setFound] = useState<{ number: number; more: boolean } | null>(all ? null : { number: ids.length, more: false });
  useEffect(() => {
    if (!all) return;
    let over = false;
    void countMatching(query, () => over).then((one) => !over && setFound(one));
    return () => {
      over = true;
    };
  }, []);
  const number = found === null ? "…" : `${count(found.number)}${found.more ? "+" : ""}`;
  const act = async () => {
    if (all) {
      const { project: _, ...where } = query;
      const made = await data(api.POST("/api/v1/jobs/change", { params: { query: { project } }, body: { action: verb, where } }));
      await queryClient.invalidateQueries();
      tell(`${counted(made.changed, "job")} changed${made.refused > 0 ? `, ${count(made.refused)} refused: they are in another state` : ""}`);
    } else {
      const made = await forEachJob(ids, EACH[verb]);
      tell(`${counted(made.changed, "job")} changed${made.refused.length > 0 ? `, ${made.refused.length} refused: ${made.refused[0]}` : ""}`);
    }
    done();
  };
  const example = jobs[0];
  return (
    <Confirm title={`${label(verb)} ${number} ${found?.number === 1 ? "job" : "jobs"}?`} action={`${label(verb)} ${number}`} danger={verb !== "retry"} onClose={onClose} onConfirm={act}>
      <p>{EFFECT[verb]} What is in another state stays as it is.</p>
      {found === null && <p className="faint">Counting…</p>}
      {example && <p className="small faint">Such as <Name>{example.job_type}</Name> in <Name>{example.queue}</Name>, {example.status}.</p>}
    </Confirm>
  );
}
