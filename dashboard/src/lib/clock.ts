/** One ticking clock for the whole page; it stands still while nobody looks. */
import { useSyncExternalStore } from "react";
import { serverNow } from "../api/client";

let now = serverNow();
let timer: ReturnType<typeof setInterval> | null = null;
const watchers = new Set<() => void>();

function tick(): void {
  if (document.hidden) return;
  now = serverNow();
  watchers.forEach((tell) => tell());
}

document.addEventListener("visibilitychange", tick);

function subscribe(tell: () => void): () => void {
  watchers.add(tell);
  timer ??= setInterval(tick, 1_000);
  return () => {
    watchers.delete(tell);
    if (watchers.size === 0 && timer !== null) {
      clearInterval(timer);
      timer = null;
    }
  };
}

export const useNow = (): number => useSyncExternalStore(subscribe, () => now);
