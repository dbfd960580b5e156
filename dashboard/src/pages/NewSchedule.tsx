import { useQuery } from "@tanstack/react-query";
import { useState, type FormEvent } from "react";
import { api, data, Problem, sendText } from "../api/client";
import { queryClient, queuesQuery } from "../api/queries";
import { joinJson, JsonError, parseJson } from "../lib/json";
import { calendar, localZone } from "../lib/time";
import { To, useGo, useScope } from "../shell/scope";
import { ErrorNotice } from "../ui/feedback";

type Kind = "cron" | "every" | "at";

export function NewSchedule() {
  const { project } = useScope();
  const go = useGo();
  const queues = useQuery(queuesQuery(project));
  const [kind, setKind] = useState<Kind>("cron");
  const [values, setValues] = useState({ name: "", queue: "default", type: "", cron: "0 3 * * *", zone: localZone(), every: "600", at: "", overlap: "allow", catchUp: "once", payload: "{}" });
  const [error, setError] = useState<unknown>(null);
  const set = (change: Partial<typeof values>) => setValues((all) => ({ ...all, ...change }));
  const preview = useQuery({
    queryKey: ["preview", kind, values.cron, values.zone, values.every],
    queryFn: () => data(api.GET("/api/v1/schedules/preview", { params: { query: kind === "cron" ? { cron: values.cron, zone: values.zone, count: 5 } : { every_seconds: Number(values.every), count: 5 } } })).then((one) => one.items),
    enabled: kind !== "at" && values.cron !== "",
    retry: false,
  });
  const fault = (name: string) => {
    const found = error instanceof Problem ? error.faults.find((one) => one.pointer.split("/")[1] === name) : undefined;
    return <span className="fault">{found && `✕ ${found.detail}${found.expected ? `: ${found.expected}` : ""}`}</span>;
  };
  const make = async (event: FormEvent) => {
    event.preventDefault();
    setError(null);
    try {
      parseJson(values.payload);
      const when = kind === "cron" ? { cron: values.cron, zone: values.zone } : kind === "every" ? { every_seconds: Number(values.every) } : { at: new Date(values.at).toISOString() };
      const body = { name: values.name, queue: values.queue, job_type: values.type, overlap: values.overlap, catch_up: values.catchUp, ...when };
      const query = project === undefined ? "" : `?project=${encodeURIComponent(project)}`;
      const made = JSON.parse(await sendText("POST", `/api/v1/schedules${query}`, joinJson(body, { payload: values.payload }))) as { id: string };
      await queryClient.invalidateQueries({ queryKey: ["schedules"] });
      go(`schedules/${made.id}`);
    } catch (problem) {
      setError(problem);
    }
  };
  const faults = error instanceof Problem && error.faults.length > 0;
  const previewProblem = preview.error instanceof Problem ? preview.error : null;
  return (
    <>
      <p className="crumbs"><To page="schedules">Schedules</To> ›</p>
      <h1>New schedule</h1>
      <form className="form" onSubmit={(event) => void make(event)}>
        <label className="field"><span>Name</span><input required value={values.name} onChange={(event) => set({ name: event.target.value })} />{fault("name")}</label>
        <label className="field"><span>When</span>
          <select value={kind} onChange={(event) => setKind(event.target.value as Kind)}><option value="cron">by a cron expression</option><option value="every">every so often</option><option value="at">once</option></select>
        </label>
        {kind === "cron" && (
          <>
            <label className="field"><span>Cron <span className="faint">minute hour day month weekday, or @daily</span></span><input required className="mono" value={values.cron} onChange={(event) => set({ cron: event.target.value })} />{fault("cron")}</label>
            <label className="field"><span>Time zone</span><input required list="zones" value={values.zone} onChange={(event) => set({ zone: event.target.value })} />{fault("zone")}</label>
            <datalist id="zones">{Intl.supportedValuesOf("timeZone").map((one) => <option key={one} value={one} />)}</datalist>
          </>
        )}
        {kind === "every" && <label className="field"><span>Every <span className="faint">s</span></span><input required inputMode="decimal" value={values.every} onChange={(event) => set({ every: event.target.value })} />{fault("every_seconds")}</label>}
        {kind === "at" && <label className="field"><span>At <span className="faint">{localZone()}</span></span><input required type="datetime-local" value={values.at} onChange={(event) => set({ at: event.target.value })} />{fault("at")}</label>}
        {kind !== "at" && (previewProblem ? <p className="fault">{previewProblem.detail}</p> : preview.data && <p className="small faint">Next: {preview.data.map((at) => calendar(at, kind === "cron" ? values.zone : undefined)).join(" · ")}</p>)}
        <label className="field"><span>Queue</span><input list="schedule-queues" required value={values.queue} onChange={(event) => set({ queue: event.target.value })} />{fault("queue")}</label>
        <datalist id="schedule-queues">{(queues.data ?? []).map((one) => <option key={one.id} value={one.name} />)}</datalist>
        <label className="field"><span>Type of its jobs</span><input required value={values.type} onChange={(event) => set({ type: event.target.value })} />{fault("job_type")}</label>
        <label className="field"><span>Payload</span><textarea rows={5} spellCheck={false} value={values.payload} onChange={(event) => set({ payload: event.target.value })} />{fault("payload")}</label>
        <label className="field"><span>While the last one runs</span><select value={values.overlap} onChange={(event) => set({ overlap: event.target.value })}><option value="allow">run beside it</option><option value="skip">leave the slot out</option><option value="queue">wait for it</option><option value="replace">cancel it</option></select></label>
        <label className="field"><span>Slots that were missed</span><select value={values.catchUp} onChange={(event) => set({ catchUp: event.target.value })}><option value="once">run once</option><option value="skip">are left out</option><option value="all">all run</option></select></label>
        {error instanceof JsonError && <p className="notice bad" role="alert">The payload is no JSON: {error.message}</p>}
        {error !== null && !faults && !(error instanceof JsonError) && <ErrorNotice error={error} />}
        <footer><button type="submit" className="primary">Make it</button></footer>
      </form>
    </>
  );
}
