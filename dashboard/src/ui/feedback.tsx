/** What came of it: toasts, faces of a list, errors that say what to do. */
import { createContext, useCallback, useContext, useMemo, useRef, useState, type ReactNode } from "react";
import { Problem } from "../api/client";
import { Copy } from "./text";

interface Toast {
  id: number;
  text: string;
  bad: boolean;
  undo?: () => void;
}
interface Toaster {
  tell: (text: string, undo?: () => void) => void;
  complain: (error: unknown) => void;
}
const Toasts = createContext<Toaster>({ tell: () => undefined, complain: () => undefined });
export const useToasts = (): Toaster => useContext(Toasts);

export function describe(error: unknown): string {
  if (!(error instanceof Problem)) return error instanceof Error ? error.message : String(error);
  if (error.status === 412) return "someone changed it meanwhile; it was loaded anew, so try again";
  return error.detail;
}

export function ToastProvider({ children }: { children: ReactNode }) {
  const [toasts, setToasts] = useState<Toast[]>([]);
  const next = useRef(0);
  const drop = useCallback((id: number) => setToasts((all) => all.filter((one) => one.id !== id)), []);
  const add = useCallback(
    (text: string, bad: boolean, undo?: () => void) => {
      const id = (next.current += 1);
      setToasts((all) => [...all.slice(-3), { id, text, bad, undo }]);
      setTimeout(() => drop(id), 8_000);
    },
    [drop],
  );
  const toaster = useMemo<Toaster>(
    () => ({ tell: (text, undo) => add(text, false, undo), complain: (error) => add(describe(error), true) }),
    [add],
  );
  return (
    <Toasts.Provider value={toaster}>
      {children}
      <div className="toasts" role="status" aria-live="polite">
        {toasts.map((one) => (
          <div key={one.id} className={one.bad ? "toast bad" : "toast"}>
            <span>{one.text}</span>
            {one.undo && (
              <button type="button" className="link" onClick={() => { one.undo?.(); drop(one.id); }}>
                Undo
              </button>
            )}
            <button type="button" className="link" aria-label="Dismiss" onClick={() => drop(one.id)}>
              ✕
            </button>
          </div>
        ))}
      </div>
    </Toasts.Provider>
  );
}

export function ErrorNotice({ error, retry }: { error: unknown; retry?: () => void }) {
  const problem = error instanceof Problem ? error : null;
  return (
    <div className="notice bad" role="alert">
      <p>{describe(error)}</p>
      {problem?.faults.map((fault) => (
        <p key={fault.pointer} className="small">
          <code>{fault.pointer}</code> {fault.detail}
          {fault.expected ? `: ${fault.expected}` : ""}
        </p>
      ))}
      <p className="small">
        {retry && (
          <button type="button" className="link" onClick={retry}>
            Try again
          </button>
        )}
        {problem?.requestId && <span className="faint"> request <span className="mono">{problem.requestId}</span></span>}
      </p>
    </div>
  );
}

/** What this is, and the command that fills it. */
export function Empty({ title, children, command }: { title: string; children?: ReactNode; command?: string }) {
  return (
    <div className="empty">
      <p className="strong">{title}</p>
      {children && <p>{children}</p>}
      {command && (
        <pre className="command">
          <code>{command}</code>
          <Copy text={command} label="Copy the command" />
        </pre>
      )}
    </div>
  );
}

export function Loading({ rows = 6 }: { rows?: number }) {
  return (
    <div className="skeleton" aria-busy="true" aria-label="Loading">
      {Array.from({ length: rows }, (_, at) => (
        <div key={at} />
      ))}
    </div>
  );
}
