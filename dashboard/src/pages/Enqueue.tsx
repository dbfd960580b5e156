/** A job by hand: empty, for a queue, or made after another one. */
import { useQuery } from "@tanstack/react-query";
import { useSearch } from "@tanstack/react-router";
import { useEffect, useState, type FormEvent } from "react";
import { enqueue } from "../api/actions";
import { api, data, Problem } from "../api/client";
import { jobQuery, queuesQuery } from "../api/queries";
import { useMay } from "../api/session";
import { joinJson, JsonError, parseJson, pretty } from "../lib/json";
import { useGo, useScope } from "../shell/scope";
import { ErrorNotice } from "../ui/feedback";

export function Enqueue() {
  const search = useSearch({ strict: false }) as { queue?: string; clone?: string; type?: string };
  const { project } = useScope();
  const may = useMay();
  const go = useGo();
  const queues = useQuery(queuesQuery(project));
  const source = useQuery({ ...jobQuery(search.clone ?? ""), enabled: search.clone !== undefined });
  const [queue, setQueue] = useState(search.queue ?? "");
  const [type, setType] = useState(search.type ?? "");
  const [payload, setPayload] = useState("{}");
  const [delay, setDelay] = useState("");
  const [priority, setPriority] = useState("");
  const [tags, setTags] = useState("");
  const [error, setError] = useState<unknown>(null);
  const [busy, setBusy] = useState(false);
  const recent = useQuery({
    queryKey: ["jobs", "types", project],
    queryFn: () => data(api.GET("/api/v1/jobs", { params: { query: { project, limit: 200 } } })).then((one) => one.items),
    staleTime: 30_000,
  });
  useEffect(() => {
    const whole = source.data;
    if (whole === undefined) return;
    setQueue(whole.job.origin_queue ?? whole.job.queue);
    setType(whole.job.job_type);
    if (whole.payload !== undefined) setPayload(pretty(whole.payload));
    setPriority(String(whole.job.priority));
    setTags(whole.job.tags.join(", "));
  }, [source.data?.job.id]);
  const types = [...new Map((recent.data ?? []).map((one) => [one.job_type, one])).values()];
  const last = types.find((one) => one.job_type === type);
  const fillLast = async () => {
    const found = await data(api.GET("/api/v1/jobs", { params: { query: { project, job_type: [type], limit: 1 } } }));
    const id = found.items[0]?.id;
    if (id === undefined) return;
    const whole = await (await import("../api/queries")).queryClient.fetchQuery(jobQuery(id));
    if (whole.payload !== undefined) setPayload(pretty(whole.payload));
    if (queue === "") setQueue(whole.job.queue);
  };
  if (!may("job:write")) return <p className="notice">Enqueueing needs the right <code>job:write</code>, which operators have.</p>;
  const fault = (name: string) => {
    const found = error instanceof Problem ? error.faults.find((one) => one.pointer.split("/")[1] === name) : undefined;
    return <span className="fault">{found && `✕ ${found.detail}${found.expected ? `: ${found.expected}` : ""}`}</span>;
  };
  const send = async (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    setError(null);
    try {
      parseJson(payload);
      const labels = tags.split(",").map((one) => one.trim()).filter((one) => one !== "");
      const values = { queue, job_type: type, priority: priority === "" ? undefined : Number(priority), delay_seconds: delay === "" ? undefined : Number(delay), tags: labels.length > 0 ? labels : undefined };
      const job = await enqueue(project, joinJson(values, { payload }));
      go(`jobs/${job.id}`);
    } catch (problem) {
      setError(problem);
      setBusy(false);
    }
  };
  const faults = error instanceof Problem && error.faults.length > 0;
  return (
    <>
      <h1>{search.clone ? "Clone a job" : "Enqueue a job"}</h1>
      <form className="form" onSubmit={(event) => void send(event)}>
        <label className="field"><span>Queue</span><input list="queues" required value={queue} onChange={(event) => setQueue(event.target.value)} />{fault("queue")}</label>
        <datalist id="queues">{(queues.data ?? []).map((one) => <option key={one.id} value={one.name} />)}</datalist>
        <label className="field"><span>Type</span><input list="types" required value={type} onChange={(event) => setType(event.target.value)} />{fault("job_type")}</label>
        <datalist id="types">{types.map((one) => <option key={one.job_type} value={one.job_type} />)}</datalist>
        <label className="field wide-field"><span>Payload <span className="faint">JSON; numbers keep every digit</span></span><textarea rows={10} className="mono" spellCheck={false} value={payload} onChange={(event) => setPayload(event.target.value)} />{fault("payload")}</label>
        {last && may("job:payload") && <p className="small"><button type="button" className="link" onClick={() => void fillLast()}>Take the payload of the last {type}</button></p>}
        <label className="field"><span>Start in <span className="faint">s</span></span><input inputMode="decimal" placeholder="now" value={delay} onChange={(event) => setDelay(event.target.value)} />{fault("delay_seconds")}</label>
        <label className="field"><span>Priority <span className="faint">0 to 9</span></span><input inputMode="numeric" placeholder="0" value={priority} onChange={(event) => setPriority(event.target.value)} />{fault("priority")}</label>
        <label className="field"><span>Tags <span className="faint">with commas</span></span><input value={tags} onChange={(event) => setTags(event.target.value)} />{fault("tags")}</label>
        {error instanceof JsonError && <p className="notice bad" role="alert">The payload is no JSON: {error.message}</p>}
        {error !== null && !faults && !(error instanceof JsonError) && <ErrorNotice error={error} />}
        <footer><button type="submit" className="primary" disabled={busy}>Enqueue</button></footer>
      </form>
    </>
  );
}
