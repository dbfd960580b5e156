import { useState } from "react";
import type { Schemas } from "../api/client";
import { plain } from "../lib/format";
import { Copy } from "../ui/text";

/** What went wrong, and where. */
export function Failure({ error, open: opened = false }: { error: Pick<Schemas["ErrorInfo"], "type" | "message" | "traceback">; open?: boolean }) {
  const [open, setOpen] = useState(opened);
  const whole = error.traceback || `${error.type}: ${error.message}`;
  return (
    <section className="failure" aria-label="Error">
      <p><b className="tone-failed">{plain(error.type)}</b> <span className="message">{plain(error.message)}</span></p>
      <p className="small">
        {error.traceback && <button type="button" className="link" aria-expanded={open} onClick={() => setOpen(!open)}>{open ? "Hide the traceback" : "Traceback"}</button>} <Copy text={whole} label="Copy the error" />
      </p>
      {open && error.traceback && <pre className="traceback">{plain(error.traceback)}</pre>}
    </section>
  );
}
