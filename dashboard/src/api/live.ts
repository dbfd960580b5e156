/** What happens, turned into queries that are stale. Events are hints; nothing is made of them alone. */
import type { QueryClient, QueryKey } from "@tanstack/react-query";
import { useSyncExternalStore } from "react";
import { BASE } from "./client";
import { follow, type Event, type Told } from "./stream";

const EACH_MS = 1_000;
export interface Live {
  state: "off" | "on" | "down";
  since: number;
}

let live: Live = { state: "off", since: 0 };
const watchers = new Set<() => void>();
const set = (next: Live): void => {
  live = next;
  watchers.forEach((tell) => tell());
};

export const useLive = (): Live =>
  useSyncExternalStore(
    (tell) => {
      watchers.add(tell);
      return () => watchers.delete(tell);
    },
    () => live,
  );

/** How often to ask for what no event tells, such as load and progress; seldom while the stream is
 * there to tell of the rest, and not at all in a hidden tab. */
export const useRhythm = (withStream: number, without = 5_000): number => (useLive().state === "on" ? withStream : without);

const MOST_IDS = 100;

/** Which queries an event makes stale. */
export function staleKeys(event: Event): QueryKey[] {
  const family = event.topic.split(".")[0];
  switch (family) {
    case "job": {
      const ids = event.jobs ?? [];
      const each = ids.length <= MOST_IDS ? ids.flatMap((id) => [["job", id], ["executions", id], ["logs", id]]) : [];
      return [["stats"], ["jobs"], ...(event.topic === "job.failed" ? [["failures"]] : []), ...each];
    }
    case "queue":
      return [["queues"], ["stats"], ["matrix"], ["explain"], ["queue"]];
    case "worker":
      return [["workers"], ["worker"], ["matrix"], ["explain"], ["serving"]];
    case "schedule":
      return [["schedules"], ["schedule"], ["slots"]];
    case "alert":
    case "alert_rule":
      return [["alerts"], ["alert-history"]];
    case "circuit":
      return [["circuits"], ["explain"]];
    case "scaling":
      return [["scaling"]];
    case "webhook":
      return [["webhooks"], ["deliveries"]];
    case "node":
    case "leader":
      return [["cluster"]];
    default:
      return [];
  }
}

/** Gathers stale keys and lets each be asked for at most once a second, and only while seen. */
export class Gatherer {
  private readonly waiting = new Map<string, QueryKey>();
  private timer: ReturnType<typeof setTimeout> | null = null;

  constructor(
    private readonly settle: (key: QueryKey) => void,
    private readonly isHidden: () => boolean,
  ) {}

  add(keys: QueryKey[]): void {
    for (const key of keys) this.waiting.set(JSON.stringify(key), key);
    this.timer ??= setTimeout(() => this.flush(), EACH_MS);
  }

  flush(): void {
    if (this.timer !== null) clearTimeout(this.timer);
    this.timer = null;
    if (this.isHidden()) return;
    const keys = [...this.waiting.values()];
    this.waiting.clear();
    keys.forEach(this.settle);
  }
}

/** Begins to listen; what it returns ends it. */
export function listen(queries: QueryClient): () => void {
  const gatherer = new Gatherer(
    (key) => void queries.invalidateQueries({ queryKey: key, refetchType: "active" }),
    () => document.hidden,
  );
  const take = (told: Told): void => {
    if (told.kind === "event") gatherer.add(staleKeys(told.event));
    else if (told.kind === "open") {
      const wasDown = live.state === "down";
      set({ state: "on", since: Date.now() });
      if (wasDown) void queries.invalidateQueries({ refetchType: "active" });
    } else if (told.kind === "down") {
      if (live.state !== "down") set({ state: "down", since: told.since });
    } else set({ state: "off", since: Date.now() });
  };
  const onSeen = (): void => {
    if (!document.hidden) gatherer.flush();
  };
  document.addEventListener("visibilitychange", onSeen);
  const end = typeof SharedWorker === "undefined" ? listenHere(take) : listenShared(take);
  return () => {
    document.removeEventListener("visibilitychange", onSeen);
    end();
    set({ state: "off", since: Date.now() });
  };
}

function listenShared(take: (told: Told) => void): () => void {
  const worker = new SharedWorker(new URL("./stream.worker.ts", import.meta.url), { type: "module", name: "taskforge-events" });
  worker.port.onmessage = ({ data }: MessageEvent<Told>) => take(data);
  worker.port.postMessage({ kind: "begin", base: BASE });
  const leave = (): void => worker.port.postMessage({ kind: "leave" });
  window.addEventListener("pagehide", leave);
  return () => {
    window.removeEventListener("pagehide", leave);
    leave();
    worker.port.close();
  };
}

/** Without shared workers only the visible tab holds a stream. */
function listenHere(take: (told: Told) => void): () => void {
  let stop: (() => void) | null = null;
  const turn = (): void => {
    if (document.hidden) {
      stop?.();
      stop = null;
    } else stop ??= follow(BASE, take);
  };
  turn();
  document.addEventListener("visibilitychange", turn);
  return () => {
    document.removeEventListener("visibilitychange", turn);
    stop?.();
  };
}
