import { useEffect, useRef, useState, type ReactNode } from "react";
import { ErrorNotice } from "./feedback";

/** The browser's own dialog: it keeps the focus inside, and gives it back. */
export function Dialog({ title, onClose, children }: { title: string; onClose: () => void; children: ReactNode }) {
  const element = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const dialog = element.current!;
    if (!dialog.open) dialog.showModal();
  }, []);
  return (
    <dialog
      ref={element}
      aria-label={title}
      onClose={onClose}
      onClick={(click) => click.target === element.current && element.current?.close()}
    >
      <div className="dialog">
        <header>
          <h2>{title}</h2>
          <button type="button" className="link" aria-label="Close" onClick={() => element.current?.close()}>
            ✕
          </button>
        </header>
        {children}
      </div>
    </dialog>
  );
}

interface Question {
  title: string;
  children: ReactNode;
  action: string;
  danger?: boolean;
  /** what must be typed before it is done */
  typed?: string;
  onConfirm: () => Promise<unknown>;
  onClose: () => void;
}

/** Asks before what cannot be undone. */
export function Confirm({ title, children, action, danger, typed, onConfirm, onClose }: Question) {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const [word, setWord] = useState("");
  const act = async () => {
    setBusy(true);
    setError(null);
    try {
      await onConfirm();
      onClose();
    } catch (problem) {
      setError(problem);
      setBusy(false);
    }
  };
  return (
    <Dialog title={title} onClose={onClose}>
      <form onSubmit={(event) => { event.preventDefault(); void act(); }}>
        {children}
        {typed !== undefined && (
          <label className="field">
            <span>Type <b>{typed}</b> to go on</span>
            <input value={word} onChange={(event) => setWord(event.target.value)} autoComplete="off" />
          </label>
        )}
        {error !== null && <ErrorNotice error={error} />}
        <footer>
          <button type="button" onClick={onClose}>
            Leave it
          </button>
          <button type="submit" className={danger ? "danger" : "primary"} disabled={busy || (typed !== undefined && word !== typed)}>
            {action}
          </button>
        </footer>
      </form>
    </Dialog>
  );
}
