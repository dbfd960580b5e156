/** Times, ids and what can be copied. */
import { useState, type ReactNode } from "react";
import { useNow } from "../lib/clock";
import { plain, tail } from "../lib/format";
import { usePreferences } from "../lib/preferences";
import { exact, relative, span } from "../lib/time";

export function Time({ at, ago = true }: { at: string | null | undefined; ago?: boolean }) {
  const now = useNow();
  const zone = usePreferences().zone || undefined;
  if (!at) return <span className="faint">–</span>;
  const told = `${exact(at, zone)}\n${exact(at, "UTC")}`;
  const past = Date.parse(at) <= now + 999;
  const text = past && !ago ? span((now - Date.parse(at)) / 1000) : relative(at, now);
  return (
    <time dateTime={at} title={told}>
      {text}
    </time>
  );
}

export function Exact({ at }: { at: string | null | undefined }) {
  const zone = usePreferences().zone || undefined;
  if (!at) return <span className="faint">–</span>;
  return (
    <time dateTime={at} title={exact(at, "UTC")}>
      {exact(at, zone)}
    </time>
  );
}

/** Over plain HTTP there is no clipboard: an invisible field is copied from instead. */
export async function copyText(text: string): Promise<void> {
  if (navigator.clipboard !== undefined && window.isSecureContext) {
    await navigator.clipboard.writeText(text);
    return;
  }
  const field = document.createElement("textarea");
  field.value = text;
  field.className = "away";
  document.body.append(field);
  field.select();
  document.execCommand("copy");
  field.remove();
}

export function Copy({ text, label = "Copy", children }: { text: string; label?: string; children?: ReactNode }) {
  const [done, setDone] = useState(false);
  const copy = async () => {
    await copyText(text);
    setDone(true);
    setTimeout(() => setDone(false), 1_500);
  };
  return (
    <button type="button" className="link copy" title={label} aria-label={label} onClick={() => void copy()}>
      {children ?? (
        <svg viewBox="0 0 12 12" className="icon" aria-hidden="true">
          <rect x="1.5" y="3.5" width="6.5" height="7" rx="1" />
          <path d="M4 3.5v-2h6.5v7H8" />
        </svg>
      )}
      <span aria-live="polite" className="copied">
        {done ? "copied" : ""}
      </span>
    </button>
  );
}

export function Id({ id }: { id: string }) {
  return (
    <span className="mono" translate="no" title={id}>
      {tail(id)}
    </span>
  );
}

/** A name that somebody chose: text, whatever is in it. */
export function Name({ children }: { children: string }) {
  return <span translate="no">{plain(children)}</span>;
}
