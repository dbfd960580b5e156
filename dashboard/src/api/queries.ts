/** What pages ask for, one place for each: the key, the call and how it is kept fresh. */
import { keepPreviousData, QueryClient, queryOptions } from "@tanstack/react-query";
import { api, data, Problem, readText, type Job } from "./client";
import { fieldSource } from "../lib/json";

export const queryClient = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 1_000,
      gcTime: 60_000,
      refetchOnWindowFocus: "always",
      retry: (failures, error) => failures < 2 && !(error instanceof Problem && error.status >= 400 && error.status < 500),
    },
  },
});

export type Project = string | undefined;
const of = (project: Project, cursor?: string, paged = true) => ({ params: { query: { project, cursor, ...(paged ? { limit: 1_000 } : {}) } as { project: Project } } });
const MOST_PAGES = 20;

/** All of a list that may come in pages: pages of the dashboard sort and search these themselves. */
async function everyPage<T>(read: (cursor?: string) => Promise<{ items: T[]; next_cursor?: string | null }>): Promise<T[]> {
  const all: T[] = [];
  let cursor: string | undefined;
  for (let page = 0; page < MOST_PAGES; page += 1) {
    const found = await read(cursor);
    all.push(...found.items);
    if (!found.next_cursor) break;
    cursor = found.next_cursor;
  }
  return all;
}

export const sessionQuery = queryOptions({
  queryKey: ["session"],
  queryFn: () => data(api.GET("/api/v1/session")),
  staleTime: 60_000,
  retry: false,
});

export const queuesQuery = (project: Project) =>
  queryOptions({ queryKey: ["queues", project], queryFn: () => everyPage((cursor) => data(api.GET("/api/v1/queues", of(project, cursor)))) });

export const queueQuery = (id: string) =>
  queryOptions({
    queryKey: ["queue", id],
    queryFn: () => data(api.GET("/api/v1/queues/{queue}", { params: { path: { queue: id } } })),
  });

export const statsQuery = (project: Project) =>
  queryOptions({
    queryKey: ["stats", project],
    queryFn: () => everyPage((cursor) => data(api.GET("/api/v1/stats", of(project, cursor, false)))),
    placeholderData: keepPreviousData,
  });

export const servingQuery = (queue: string) =>
  queryOptions({
    queryKey: ["serving", queue],
    queryFn: () => data(api.GET("/api/v1/queues/{queue}/workers", { params: { path: { queue } } })).then((one) => one.items),
  });

export interface WholeJob {
  job: Job;
  /** as it was stored; undefined without the right to see it */
  payload: string | undefined;
  result: string | undefined;
}

export const jobQuery = (id: string) =>
  queryOptions({
    queryKey: ["job", id],
    queryFn: async (): Promise<WholeJob> => {
      const text = await readText(`/api/v1/jobs/${encodeURIComponent(id)}`);
      const job = JSON.parse(text) as Job;
      if (job.redacted) return { job, payload: undefined, result: undefined };
      return { job, payload: fieldSource(text, "payload"), result: fieldSource(text, "result") };
    },
  });

const path = (job_id: string) => ({ params: { path: { job_id } } });

export const explainQuery = (id: string) =>
  queryOptions({ queryKey: ["explain", id], queryFn: () => data(api.GET("/api/v1/jobs/{job_id}/explain", path(id))) });

export const executionsQuery = (id: string) =>
  queryOptions({
    queryKey: ["executions", id],
    queryFn: () => data(api.GET("/api/v1/jobs/{job_id}/executions", path(id))).then((one) => one.items),
  });

export const workersQuery = (project: Project) =>
  queryOptions({
    queryKey: ["workers", project],
    queryFn: () => everyPage((cursor) => data(api.GET("/api/v1/workers", of(project, cursor)))),
    placeholderData: keepPreviousData,
  });

export const workerQuery = (worker_id: string) =>
  queryOptions({
    queryKey: ["worker", worker_id],
    queryFn: () => data(api.GET("/api/v1/workers/{worker_id}", { params: { path: { worker_id } } })),
  });

export const schedulesQuery = (project: Project) =>
  queryOptions({
    queryKey: ["schedules", project],
    queryFn: () => data(api.GET("/api/v1/schedules", { params: { query: { project, limit: 200 } } })).then((one) => one.items),
  });

export const alertsQuery = (project: Project) =>
  queryOptions({
    queryKey: ["alerts", project],
    queryFn: () => data(api.GET("/api/v1/alerts", { params: { query: { project, limit: 200 } } })).then((one) => one.items),
  });

/** Those that hold something back: the open ones first. */
export const heldCircuitsQuery = (project: Project) =>
  queryOptions({
    queryKey: ["circuits", project],
    queryFn: async () => {
      const read = (mode: "open" | "half_open") => data(api.GET("/api/v1/circuits", { params: { query: { project, mode, limit: 20 } } })).then((one) => one.items);
      return [...(await read("open")), ...(await read("half_open"))];
    },
  });

/** The types that ran lately. */
export const jobTypesQuery = (project: Project) =>
  queryOptions({
    queryKey: ["job-types", project],
    queryFn: () => data(api.GET("/api/v1/metrics/job-types", { params: { query: { project, last_seconds: 86_400, step_seconds: 86_400, limit: 50 } } })).then((one) => one.items.map((each) => each.name)),
    staleTime: 30_000,
    retry: false,
  });

export const clusterQuery = queryOptions({ queryKey: ["cluster"], queryFn: () => data(api.GET("/api/v1/cluster")) });

export const projectsQuery = queryOptions({
  queryKey: ["projects"],
  queryFn: () => data(api.GET("/api/v1/projects")).then((one) => one.items),
});
