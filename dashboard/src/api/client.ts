/** The one way to the server: the public API, typed by its own document. */
import createClient from "openapi-fetch";
import type { components, paths } from "./schema.gen";

export type Schemas = components["schemas"];
export type Job = Schemas["JobView"];
export type Queue = Schemas["QueueView"];
export type QueueStats = Schemas["QueueStatsView"];
export type Worker = Schemas["WorkerView"];
export type Execution = Schemas["ExecutionView"];
export type LogLine = Schemas["LineView"];
export type Schedule = Schemas["ScheduleView"];
export type Circuit = Schemas["CircuitView"];
export type AlertRule = Schemas["AlertRuleView"];
export type WhoAmI = Schemas["WhoAmI"];
export type Fault = Schemas["Fault"];

const meta = (name: string): string =>
  document.querySelector<HTMLMetaElement>(`meta[name="taskforge-${name}"]`)?.content ?? "";

/** Where a proxy has put the server: "" or "/tools/taskforge". */
export const PREFIX = meta("prefix");
export const SINGLE_SIGN_ON = meta("single-sign-on") === "yes";
export const BASE = location.origin + PREFIX;

/** An answer that is no success, as the API tells it (RFC 9457). */
export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly detail: string,
    readonly faults: Fault[] = [],
    readonly requestId: string | null = null,
  ) {
    super(detail);
  }
}

/** What changes when a session begins or ends: the token that every change must carry. */
export const credentials = { csrf: "" };
const listeners = new Set<() => void>();
export const onLoggedOut = (listener: () => void): (() => void) => {
  listeners.add(listener);
  return () => listeners.delete(listener);
};

/** How far the server's clock is ahead of ours: the median of the last answers. */
const offsets: number[] = [];
export const serverNow = (): number => Date.now() + (clockOffset.value ?? 0);
const clockOffset: { value: number | null } = { value: null };

function noteClock(answer: Response): void {
  const told = Date.parse(answer.headers.get("date") ?? "");
  if (Number.isNaN(told)) return;
  // the header has whole seconds, cut off: half a second is what it lacks on average
  offsets.push(told + 500 - Date.now());
  if (offsets.length > 9) offsets.shift();
  const sorted = [...offsets].sort((a, b) => a - b);
  const median = sorted[sorted.length >> 1]!;
  clockOffset.value = Math.abs(median) < 2_000 ? 0 : median;
}

async function problemOf(answer: Response): Promise<Problem> {
  try {
    const told = (await answer.json()) as { detail?: string; errors?: Fault[]; request_id?: string };
    return new Problem(answer.status, told.detail ?? answer.statusText, told.errors, told.request_id ?? null);
  } catch {
    return new Problem(answer.status, `the server answered ${answer.status} ${answer.statusText}`);
  }
}

async function send(request: Request): Promise<Response> {
  if (request.method !== "GET") request.headers.set("X-CSRF-Token", credentials.csrf);
  let answer: Response;
  try {
    answer = await fetch(request, { credentials: "same-origin" });
  } catch (error) {
    if (request.signal.aborted) throw error;
    throw new Problem(0, "the server does not answer: it is stopped, or the network is away");
  }
  noteClock(answer);
  if (!answer.ok) {
    if (answer.status === 401) listeners.forEach((tell) => tell());
    throw await problemOf(answer);
  }
  return answer;
}

export const api = createClient<paths>({
  baseUrl: BASE,
  fetch: send,
  querySerializer: { array: { style: "form", explode: true } },
});

/** The body of an answer; errors were thrown already. */
export async function data<T>(answer: Promise<{ data?: T }>): Promise<T> {
  return (await answer).data as T;
}

/** The answer as it was written, for what JSON.parse would round. */
export async function readText(path: string): Promise<string> {
  return (await send(new Request(BASE + path))).text();
}

export async function sendText(method: string, path: string, body: string, headers: Record<string, string> = {}): Promise<string> {
  const all = { "Content-Type": "application/json", ...headers };
  return (await send(new Request(BASE + path, { method, body, headers: all }))).text();
}
