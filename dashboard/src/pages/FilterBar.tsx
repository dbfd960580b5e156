import { useQuery } from "@tanstack/react-query";
import { useState, type FormEvent } from "react";
import { queuesQuery } from "../api/queries";
import { tail } from "../lib/format";
import { PERIODS, readFilter, readWords, type JobFilter } from "../lib/filter";
import { To, useGo, useScope } from "../shell/scope";

const LABELS: Record<string, string> = { job_type: "type", queue: "queue", tag: "tag", priority: "priority", failure_group: "failures" };

/** The filter as tokens; what is typed becomes one, what is clicked goes. */
export function FilterBar({ filter }: { filter: JobFilter }) {
  const { project } = useScope();
  const go = useGo();
  const [words, setWords] = useState("");
  const queues = useQuery(queuesQuery(project));
  const add = (event: FormEvent) => {
    event.preventDefault();
    const found = readFilter(readWords(words));
    if (Object.keys(found).length > 0) go("jobs", { ...filter, ...found });
    setWords("");
  };
  return (
    <form className="filter" onSubmit={add}>
      {Object.entries(LABELS).map(([key, label]) => {
        const value = filter[key as keyof JobFilter];
        if (value === undefined) return null;
        return <To key={key} page="jobs" search={{ ...filter, [key]: undefined }} className="token" title="Remove it">{label}:{key === "failure_group" ? tail(String(value)) : String(value)} ✕</To>;
      })}
      <input list="filter-words" aria-label="Add to the filter" placeholder="type, queue:name, tag:name" value={words} onChange={(event) => setWords(event.target.value)} autoComplete="off" spellCheck={false} />
      <datalist id="filter-words">{(queues.data ?? []).slice(0, 50).map((one) => <option key={one.id} value={`queue:${one.name}`} />)}</datalist>
      <select aria-label="Created" value={filter.last ?? ""} onChange={(event) => go("jobs", { ...filter, last: event.target.value || undefined })}>
        <option value="">any time</option>
        {Object.entries(PERIODS).map(([key, label]) => <option key={key} value={key}>{label}</option>)}
        {filter.last !== undefined && !(filter.last in PERIODS) && <option value={filter.last}>last {filter.last}</option>}
      </select>
    </form>
  );
}
