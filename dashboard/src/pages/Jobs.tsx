/** Where is my job? One list of all of them; the address is the filter. */
import { useQuery } from "@tanstack/react-query";
import { useSearch } from "@tanstack/react-router";
import { memo, useCallback, useEffect, useMemo, useRef, useState } from "react";
import type { Job, QueueStats } from "../api/client";
import { useRhythm } from "../api/live";
import { statsQuery } from "../api/queries";
import { useMay } from "../api/session";
import { isEmpty, matches, PERIODS, readFilter, STATUSES, type JobFilter, type Status as JobStatus } from "../lib/filter";
import { count } from "../lib/format";
import { duration } from "../lib/time";
import { To, useGo, useScope } from "../shell/scope";
import { Empty, ErrorNotice, Loading } from "../ui/feedback";
import { Rows } from "../ui/Rows";
import { Shape, Status } from "../ui/Status";
import { Id, Name, Time } from "../ui/text";
import { BulkBar } from "./BulkBar";
import { FilterBar } from "./FilterBar";
import { useJobList } from "./jobList";

export function Jobs() {
  const search = useSearch({ strict: false }) as Record<string, unknown>;
  const filter = useMemo(() => readFilter(search), [JSON.stringify(search)]);
  const { project } = useScope();
  const may = useMay();
  const go = useGo();
  const [selected, setSelected] = useState<Set<string>>(new Set());
  const [current, setCurrent] = useState(-1);
  const hovered = useRef(false);
  // new rows come in by themselves only while nobody reads or has chosen any
  const list = useJobList(filter, project, () => window.scrollY < 40 && !hovered.current && selected.size === 0 && current < 0);
  const jobs = list.jobs ?? [];

  useEffect(() => {
    setSelected(new Set());
    setCurrent(-1);
  }, [filter]);
  const toggle = useCallback(
    (id: string) =>
      setSelected((old) => {
        const next = new Set(old);
        if (!next.delete(id)) next.add(id);
        return next;
      }),
    [],
  );

  useRowKeys(jobs, current, setCurrent, (job) => go(`jobs/${job.id}`), may("job:write") ? (job) => toggle(job.id) : undefined, () => setSelected(new Set()));

  const columns = may("job:write") ? 9 : 8;
  return (
    <>
      <header className="page">
        <h1>Jobs</h1>
        <span className="gap" />
        {may("job:write") && <To page="enqueue" search={filter.queue ? { queue: filter.queue } : {}} className="button primary">Enqueue</To>}
      </header>
      <FilterBar filter={filter} />
      <StatusCounts filter={filter} />
      {list.error !== null && <ErrorNotice error={list.error} retry={list.refresh} />}
      {list.jobs === null ? (
        list.isLoading && <Loading rows={12} />
      ) : jobs.length === 0 ? (
        <NothingFound filter={filter} />
      ) : (
        <div className={list.isLoading ? "dimmed" : undefined} onMouseEnter={() => (hovered.current = true)} onMouseLeave={() => (hovered.current = false)}>
          <div className="fresh" aria-live="polite">
            {list.waiting > 0 && <button type="button" className="pill" onClick={list.showNew}>↑ {count(list.waiting)} new</button>}
          </div>
          <Rows
            label="Jobs"
            className="jobs"
            items={jobs}
            columns={columns}
            onSeen={(first, last) => {
              list.setSeen(jobs.slice(first, last).map((job) => job.id));
              if (last >= jobs.length - 20 && list.hasMore) list.loadMore();
            }}
            head={
              <tr>
                {may("job:write") && <th className="tick"><input type="checkbox" aria-label="Select all that are loaded" checked={selected.size > 0 && selected.size === jobs.length} onChange={(event) => setSelected(event.target.checked ? new Set(jobs.map((job) => job.id)) : new Set())} /></th>}
                <th className="c-status">status</th><th className="c-type">type</th><th className="c-queue">queue</th><th className="c-id">job</th><th className="number c-try">try</th><th className="number c-ran">ran</th><th className="number c-when">created</th><th className="c-what">what</th>
              </tr>
            }
            render={(job, at) => (
              <JobRow key={job.id} job={job} dim={!matches(filter, job)} here={at === current} selected={selected.has(job.id)} onToggle={may("job:write") ? toggle : undefined} />
            )}
          />
          {!list.hasMore && jobs.length >= 100 && <p className="faint small">{jobs.length >= 10_000 ? "The newest 10,000 are shown; narrow the filter for older ones." : "That is all."}</p>}
        </div>
      )}
      {may("job:write") && jobs.length > 0 && (selected.size > 0 || !isEmpty(filter)) && (
        <BulkBar filter={filter} jobs={jobs} selected={selected} clear={() => setSelected(new Set())} done={list.refresh} />
      )}
    </>
  );
}

interface JobRowProps {
  job: Job;
  dim: boolean;
  here: boolean;
  selected: boolean;
  onToggle?: (id: string) => void;
}

const JobRow = memo(function JobRow({ job, dim, here, selected, onToggle }: JobRowProps) {
  const ran = job.started_at && job.completed_at ? (Date.parse(job.completed_at) - Date.parse(job.started_at)) / 1000 : null;
  return (
    <tr className={`${dim ? "dim " : ""}${here ? "here " : ""}${selected ? "selected" : ""}`} title={dim ? "no longer matches the filter" : undefined}>
      {onToggle && <td className="tick"><input type="checkbox" aria-label={`Select job ${job.id}`} checked={selected} onChange={() => onToggle(job.id)} /></td>}
      <td className="c-status"><Status status={job.status} word={job.cancel_requested && job.status === "processing" ? "stopping" : undefined} /></td>
      <td className="c-type"><Name>{job.job_type}</Name></td>
      <td className="c-queue"><To page="jobs" search={{ queue: job.queue }} title={`Only ${job.queue}`}><Name>{job.queue}</Name></To></td>
      <td className="c-id"><To page={`jobs/${job.id}`} className="row-link"><Id id={job.id} /></To></td>
      <td className="number c-try">{job.attempt_count}/{job.max_attempts}</td>
      <td className="number c-ran">{ran === null ? <span className="faint">–</span> : duration(ran)}</td>
      <td className="number c-when"><Time at={job.created_at} ago={false} /></td>
      <td className="c-what"><What job={job} /></td>
    </tr>
  );
});

/** The one thing worth knowing of a job in this state. */
function What({ job }: { job: Job }) {
  if (job.status === "processing")
    return job.progress === null ? <span className="faint">{job.worker_name}</span> : <span><progress value={job.progress} max={1} aria-label="Progress" /> {Math.round(job.progress * 100)} % <span className="faint">{job.progress_message}</span></span>;
  if (job.status === "scheduled") return <span><Time at={job.scheduled_for} />{job.error && <span className="faint"> · {job.error.type}</span>}</span>;
  if (job.error) return <span>{job.error.type}: <span className="faint">{job.error.message}</span></span>;
  return <span className="faint">{job.reason ?? job.tags.join(", ")}</span>;
}

/** Totals of each status from the store's own counters; a click filters. */
function StatusCounts({ filter }: { filter: JobFilter }) {
  const { project } = useScope();
  const stats = useQuery({ ...statsQuery(project), refetchInterval: useRhythm(3_000) });
  // counters know queues and statuses; of other filters they know nothing
  const known = filter.job_type === undefined && filter.tag === undefined && filter.priority === undefined && filter.failure_group === undefined && filter.last === undefined;
  const rows = (stats.data ?? []).filter((one) => filter.queue === undefined || one.queue === filter.queue || one.queue_id === filter.queue);
  const total = (status: keyof QueueStats) => rows.reduce((sum, one) => sum + (one[status] as number), 0);
  return (
    <div className="status-counts" role="group" aria-label="Filter by status">
      {STATUSES.map((status) => {
        const on = filter.status?.includes(status) ?? false;
        const next = on ? filter.status!.filter((one) => one !== status) : [...(filter.status ?? []), status];
        return (
          <To key={status} page="jobs" search={{ ...filter, status: next.length === 0 ? undefined : next }} className={on ? "on" : undefined} title={on ? `Without ${status}` : `Only ${status}`}>
            <Shape status={status} /> {status} {known && stats.data && <b>{count(total(status as JobStatus))}</b>}
          </To>
        );
      })}
    </div>
  );
}

function NothingFound({ filter }: { filter: JobFilter }) {
  if (isEmpty(filter)) return <Empty title="There is no job yet." command={`taskforge enqueue hello --payload '{"name": "you"}' --queue default`} />;
  const tokens = Object.entries(filter).map(([key, value]) => [key, key === "last" ? (PERIODS[String(value)] ?? value) : value]);
  return (
    <Empty title="No job matches.">
      Remove{" "}
      {tokens.map(([key, value], at) => (
        <span key={String(key)}>{at > 0 && ", "}<To page="jobs" search={{ ...filter, [String(key)]: undefined }}>{key === "last" ? String(value) : `${key}:${String(value)}`}</To></span>
      ))}
      , or <To page="jobs">all of it</To>.
    </Empty>
  );
}

function useRowKeys(jobs: Job[], current: number, setCurrent: (at: number) => void, open: (job: Job) => void, select: ((job: Job) => void) | undefined, clear: () => void) {
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      const target = event.target as HTMLElement;
      if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
      if (/^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName) && (target as HTMLInputElement).type !== "checkbox") return;
      const move = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1 }[event.key];
      if (move !== undefined && (event.key === "j" || event.key === "k" || current >= 0)) {
        event.preventDefault();
        setCurrent(Math.max(0, Math.min(jobs.length - 1, current + move)));
      } else if (event.key === "Enter" && current >= 0 && target.tagName !== "A" && target.tagName !== "BUTTON") open(jobs[current]!);
      else if (event.key === "x" && current >= 0) select?.(jobs[current]!);
      else if (event.key === "Escape") {
        clear();
        setCurrent(-1);
      }
    };
    document.addEventListener("keydown", press);
    return () => document.removeEventListener("keydown", press);
  });
  useEffect(() => void document.querySelector("tr.here")?.scrollIntoView({ block: "nearest" }), [current]);
}
