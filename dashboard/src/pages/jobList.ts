/** A live list that does not jump: rows change in place, new ones wait, older ones come by cursor. */
import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import { api, data, serverNow, type Job } from "../api/client";
import type { Project } from "../api/queries";
import { createdAfter, type JobFilter } from "../lib/filter";

const PAGE = 100;
const NEXT_PAGES = 250;
const MOST_ROWS = 10_000;
const MOST_IDS = 100;
const EACH_MS = 2_500;
export const isFinal = (job: Job): boolean => ["succeeded", "failed", "cancelled"].includes(job.status);

export function queryOf(filter: JobFilter, project: Project) {
  const { last: _, ...rest } = filter;
  return { ...rest, project, created_after: createdAfter(filter, serverNow()) };
}

const read = (query: object) => data(api.GET("/api/v1/jobs", { params: { query } }));

export interface JobListState {
  jobs: Job[] | null;
  waiting: number;
  error: unknown;
  hasMore: boolean;
  isLoading: boolean;
  loadMore: () => void;
  showNew: () => void;
  refresh: () => void;
  /** rows on screen, which alone are looked at again */
  setSeen: (ids: string[]) => void;
}

/** `isUntouched`: whether new rows may come in by themselves. */
export function useJobList(filter: JobFilter, project: Project, isUntouched: () => boolean): JobListState {
  const key = JSON.stringify([filter, project]);
  const query = useMemo(() => queryOf(filter, project), [key]);
  const [jobs, setJobs] = useState<Job[] | null>(null);
  const [fresh, setFresh] = useState<Job[]>([]);
  const [cursor, setCursor] = useState<string | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [isLoading, setLoading] = useState(true);
  const [turn, setTurn] = useState(0);
  const seen = useRef<string[]>([]);
  const untouched = useRef(isUntouched);
  untouched.current = isUntouched;
  const loading = useRef(false);

  useEffect(() => {
    let current = true;
    setLoading(true);
    setFresh([]);
    read({ ...query, limit: PAGE })
      .then((page) => {
        if (!current) return;
        setJobs(page.items);
        setCursor(page.next_cursor);
        setError(null);
      })
      .catch((problem) => current && setError(problem))
      .finally(() => current && setLoading(false));
    return () => {
      current = false;
    };
  }, [query, turn]);

  const state = useRef({ jobs, fresh });
  state.current = { jobs, fresh };

  useEffect(() => {
    let current = true;
    const look = async () => {
      const { jobs: rows, fresh: known } = state.current;
      if (rows === null || document.hidden) return;
      const open = new Map(rows.filter((job) => !isFinal(job)).map((job) => [job.id, job]));
      const again = seen.current.filter((id) => open.has(id)).slice(0, MOST_IDS);
      const [first, changed] = await Promise.all([
        read({ ...query, limit: 50 }),
        again.length === 0 ? Promise.resolve({ items: [] as Job[] }) : read({ id: again, limit: again.length }),
      ]);
      if (!current) return;
      const have = new Set([...rows, ...known].map((job) => job.id));
      const newest = rows[0]?.id ?? "";
      const added = first.items.filter((job) => !have.has(job.id) && job.id > newest);
      const patches = new Map([...changed.items, ...first.items].map((job) => [job.id, job]));
      if (untouched.current() && (added.length > 0 || known.length > 0)) {
        setJobs((old) => trim([...added, ...known, ...(old ?? []).map((job) => patches.get(job.id) ?? job)]));
        setFresh([]);
      } else {
        setJobs((old) => old?.map((job) => patches.get(job.id) ?? job) ?? null);
        if (added.length > 0) setFresh((old) => [...added, ...old].slice(0, 1_000));
      }
      setError(null);
    };
    const timer = setInterval(() => void look().catch((problem) => current && setError(problem)), EACH_MS);
    return () => {
      current = false;
      clearInterval(timer);
    };
  }, [query]);

  const loadMore = useCallback(() => {
    if (cursor === null || loading.current) return;
    loading.current = true;
    read({ ...query, limit: NEXT_PAGES, cursor })
      .then((page) => {
        setJobs((old) => {
          const have = new Set(old?.map((job) => job.id));
          return trim([...(old ?? []), ...page.items.filter((job) => !have.has(job.id))]);
        });
        setCursor(page.next_cursor);
      })
      .catch(setError)
      .finally(() => (loading.current = false));
  }, [cursor, query]);

  return {
    jobs,
    waiting: fresh.length,
    error,
    hasMore: cursor !== null && (jobs?.length ?? 0) < MOST_ROWS,
    isLoading,
    loadMore,
    showNew: useCallback(() => {
      setJobs((old) => trim([...state.current.fresh, ...(old ?? [])]));
      setFresh([]);
    }, []),
    refresh: useCallback(() => setTurn((old) => old + 1), []),
    setSeen: useCallback((ids: string[]) => (seen.current = ids), []) as (ids: string[]) => void,
  };
}

const trim = (jobs: Job[]): Job[] => jobs.slice(0, MOST_ROWS);
