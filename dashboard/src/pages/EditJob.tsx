import { useState, type FormEvent } from "react";
import { editJob } from "../api/actions";
import { Problem } from "../api/client";
import type { WholeJob } from "../api/queries";
import { joinJson, JsonError, parseJson, pretty } from "../lib/json";
import { Dialog } from "../ui/Dialog";
import { ErrorNotice, useToasts } from "../ui/feedback";

/** A job that has not started: its priority, its time, its payload. */
export function EditJob({ whole, onClose }: { whole: WholeJob; onClose: () => void }) {
  const { job, payload } = whole;
  const before = payload === undefined ? "" : pretty(payload);
  const [priority, setPriority] = useState(String(job.priority));
  const [delay, setDelay] = useState("");
  const [text, setText] = useState(before);
  const [error, setError] = useState<unknown>(null);
  const { tell } = useToasts();
  const save = async (event: FormEvent) => {
    event.preventDefault();
    try {
      const values: Record<string, unknown> = {};
      if (priority !== String(job.priority)) values.priority = Number(priority);
      if (delay !== "") values.delay_seconds = Number(delay);
      const changed = text !== before;
      if (changed) parseJson(text);
      await editJob(job.id, joinJson(values, changed ? { payload: text } : {}));
      tell("it is changed");
      onClose();
    } catch (problem) {
      setError(problem);
    }
  };
  return (
    <Dialog title="Edit the job" onClose={onClose}>
      <form onSubmit={(event) => void save(event)}>
        <label className="field"><span>Priority</span><input inputMode="numeric" value={priority} onChange={(event) => setPriority(event.target.value)} /></label>
        <label className="field"><span>Start in <span className="faint">s from now</span></span><input inputMode="decimal" placeholder="as it is" value={delay} onChange={(event) => setDelay(event.target.value)} /></label>
        {payload !== undefined && <label className="field"><span>Payload</span><textarea rows={10} spellCheck={false} className="mono" value={text} onChange={(event) => setText(event.target.value)} /></label>}
        {error instanceof JsonError ? <p className="notice bad" role="alert">The payload is no JSON: {error.message}</p> : error !== null && (error instanceof Problem || error instanceof Error) && <ErrorNotice error={error} />}
        <footer><button type="button" onClick={onClose}>Leave it</button><button type="submit" className="primary">Save</button></footer>
      </form>
    </Dialog>
  );
}
