/** What people do, each with what it makes stale. Errors are thrown for who asked to show them. */
import { api, data, sendText, type Circuit, type Job, type Queue, type Worker } from "./client";
import { queryClient } from "./queries";

const stale = (...keys: string[]): Promise<unknown> =>
  Promise.all(keys.map((key) => queryClient.invalidateQueries({ queryKey: [key] })));

const queuePath = (queue: string) => ({ params: { path: { queue } } });
const jobPath = (job_id: string) => ({ params: { path: { job_id } } });

export async function setPaused(queue: string, paused: boolean): Promise<Queue> {
  const made = paused
    ? await data(api.POST("/api/v1/queues/{queue}/pause", queuePath(queue)))
    : await data(api.POST("/api/v1/queues/{queue}/resume", queuePath(queue)));
  await stale("queues", "queue", "stats", "explain", "matrix");
  return made;
}

export async function setDraining(worker: Pick<Worker, "id">, draining: boolean): Promise<Worker> {
  const path = { params: { path: { worker_id: worker.id } } };
  const made = draining
    ? await data(api.POST("/api/v1/workers/{worker_id}/drain", path))
    : await data(api.POST("/api/v1/workers/{worker_id}/undrain", path));
  await stale("workers", "worker", "explain", "matrix", "serving");
  return made;
}

/** By hand: what is open hands nothing out until it is closed. */
export async function moveCircuit(circuit: Pick<Circuit, "queue_id" | "job_type" | "dependency"> & { project: string | undefined }, to: "open" | "close"): Promise<void> {
  const { queue_id, job_type, dependency, project } = circuit;
  const asked = { params: { query: { project } }, body: dependency === null ? { queue: queue_id, job_type } : { dependency } };
  await data(to === "open" ? api.POST("/api/v1/circuits/open", asked) : api.POST("/api/v1/circuits/close", asked));
  await stale("circuits", "explain", "stats");
}

const jobsChanged = () => stale("job", "jobs", "stats", "explain", "executions");

export async function cancelJob(id: string): Promise<void> {
  await data(api.POST("/api/v1/jobs/{job_id}/cancel", { ...jobPath(id), body: { reason: "cancelled in the dashboard" } }));
  await jobsChanged();
}

export async function retryJob(id: string): Promise<void> {
  await data(api.POST("/api/v1/jobs/{job_id}/retry", jobPath(id)));
  await jobsChanged();
}

export async function redriveJob(id: string): Promise<void> {
  await data(api.POST("/api/v1/jobs/{job_id}/redrive", jobPath(id)));
  await jobsChanged();
}

export async function deleteJob(id: string): Promise<void> {
  await data(api.DELETE("/api/v1/jobs/{job_id}", jobPath(id)));
  await jobsChanged();
}

/** The body is text: a payload goes as it was written. */
export async function enqueue(project: string | undefined, body: string): Promise<Job> {
  const query = project === undefined ? "" : `?project=${encodeURIComponent(project)}`;
  const text = await sendText("POST", `/api/v1/jobs${query}`, body, { "Idempotency-Key": crypto.randomUUID?.() ?? String(Math.random()) });
  await jobsChanged();
  return JSON.parse(text) as Job;
}

export async function editJob(id: string, body: string): Promise<void> {
  await sendText("PATCH", `/api/v1/jobs/${id}`, body);
  await jobsChanged();
}

/** Made to the version that was read: someone else's change in between is a 412. */
export async function editQueue(queue: Queue, body: object): Promise<Queue> {
  const text = await sendText("PATCH", `/api/v1/queues/${queue.id}`, JSON.stringify(body), { "If-Match": `"${queue.version}"` });
  await stale("queues", "queue", "stats", "explain", "matrix");
  return JSON.parse(text) as Queue;
}
