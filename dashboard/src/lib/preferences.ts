/** What a person chose for this browser: theme, zone, single-letter keys. */
import { useSyncExternalStore } from "react";
import { PREFIX } from "../api/client";

export interface Preferences {
  theme: "system" | "light" | "dark";
  /** "" is the browser's own */
  zone: string;
  keys: boolean;
}

const NAME = "taskforge-preferences";
const watchers = new Set<() => void>();
let preferences = read();

function read(): Preferences {
  const plain: Preferences = { theme: "system", zone: "", keys: true };
  try {
    return { ...plain, ...(JSON.parse(localStorage.getItem(NAME) ?? "{}") as Partial<Preferences>) };
  } catch {
    return plain;
  }
}

export function applyTheme(): void {
  const root = document.documentElement;
  if (preferences.theme === "system") delete root.dataset.theme;
  else root.dataset.theme = preferences.theme;
  // the server writes the attribute into the page, so that nothing flashes before this runs
  document.cookie = `taskforge_theme=${preferences.theme}; path=${PREFIX}/; max-age=31536000; samesite=lax`;
}

export function prefer(change: Partial<Preferences>): void {
  preferences = { ...preferences, ...change };
  localStorage.setItem(NAME, JSON.stringify(preferences));
  applyTheme();
  watchers.forEach((tell) => tell());
}

export const usePreferences = (): Preferences =>
  useSyncExternalStore(
    (tell) => {
      watchers.add(tell);
      return () => watchers.delete(tell);
    },
    () => preferences,
  );
