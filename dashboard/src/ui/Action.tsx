import { useState, type ReactNode } from "react";
import { useToasts } from "./feedback";

/** A button that does one thing: it waits for the answer, and says what went wrong. */
export function Action({ act, children, className, title }: { act: () => Promise<unknown>; children: ReactNode; className?: string; title?: string }) {
  const [busy, setBusy] = useState(false);
  const { complain } = useToasts();
  const press = async () => {
    setBusy(true);
    try {
      await act();
    } catch (error) {
      complain(error);
    } finally {
      setBusy(false);
    }
  };
  return (
    <button type="button" className={className} title={title} disabled={busy} onClick={() => void press()}>
      {children}
    </button>
  );
}
