import { useState, type FormEvent } from "react";
import { useQuery } from "@tanstack/react-query";
import { api, data } from "../api/client";
import { queryClient, queuesQuery } from "../api/queries";
import { useScope } from "../shell/scope";
import { ErrorNotice } from "../ui/feedback";
import { Field, isTold } from "../ui/Field";
import type { Webhook } from "./Webhooks";

const FIELDS = ["name", "url", "kinds", "queues", "report_seconds", "description"] as const;
const KINDS: [string, string][] = [
  ["job", "every change of a job"],
  ["job.failed", "jobs that fail for good"],
  ["job.succeeded", "jobs that succeed"],
  ["alert", "alerts that fire and resolve"],
  ["queue", "queues that change"],
  ["worker", "workers that come and go"],
  ["circuit", "circuits that open and close"],
  ["schedule", "schedules"],
  ["scaling", "decisions of scaling policies"],
  ["report", "figures, every so often"],
];
const words = (text: string): string[] => text.split(/[\s,]+/).filter((one) => one !== "");

/** Makes one, or changes the one that is given. */
export function WebhookForm({ webhook, onClose, onMade }: { webhook?: Webhook; onClose: () => void; onMade: (made: { webhook: Webhook; secret: string }) => void }) {
  const { project } = useScope();
  const queues = useQuery(queuesQuery(project));
  const nameOf = (id: string) => queues.data?.find((one) => one.id === id)?.name ?? id;
  const [values, setValues] = useState({ name: webhook?.name ?? "", url: webhook?.url ?? "", description: webhook?.description ?? "", report: String(webhook?.report_seconds ?? 60) });
  const [of, setOf] = useState<string | null>(webhook === undefined ? "" : null);
  const [kinds, setKinds] = useState<string[]>([...(webhook?.kinds ?? ["job.failed", "alert"])]);
  const [other, setOther] = useState("");
  const [error, setError] = useState<unknown>(null);
  const set = (change: Partial<typeof values>) => setValues((all) => ({ ...all, ...change }));
  const known = KINDS.map(([kind]) => kind);
  const save = async (event: FormEvent) => {
    event.preventDefault();
    setError(null);
    const body = { name: values.name, url: values.url, description: values.description, kinds: [...kinds, ...words(other)], report_seconds: Number(values.report), ...(of === null ? {} : { queues: words(of) }) };
    try {
      if (webhook === undefined) onMade(await data(api.POST("/api/v1/webhooks", { params: { query: { project } }, body })));
      else {
        await data(api.PATCH("/api/v1/webhooks/{webhook}", { params: { path: { webhook: webhook.id }, header: { "If-Match": `"${webhook.version}"` } as never }, body }));
        onClose();
      }
      await queryClient.invalidateQueries({ queryKey: ["webhooks"] });
    } catch (problem) {
      setError(problem);
    }
  };
  const tick = (kind: string, on: boolean) => setKinds((all) => (on ? [...all, kind] : all.filter((one) => one !== kind)));
  return (
    <form onSubmit={(event) => void save(event)}>
      <Field label="Name" name="name" error={error}><input required autoFocus value={values.name} onChange={(event) => set({ name: event.target.value })} /></Field>
      <Field label="Address" hint="https, on the public internet" name="url" error={error}><input required inputMode="url" placeholder="https://example.com/hooks" value={values.url} onChange={(event) => set({ url: event.target.value })} /></Field>
      <fieldset>
        <legend className="small">Is told of</legend>
        <div className="rights">
          {KINDS.map(([kind, about]) => <label key={kind} className="check" title={about}><input type="checkbox" checked={kinds.includes(kind)} onChange={(event) => tick(kind, event.target.checked)} /> {kind}</label>)}
          {kinds.filter((one) => !known.includes(one)).map((kind) => <label key={kind} className="check"><input type="checkbox" checked onChange={() => tick(kind, false)} /> {kind}</label>)}
        </div>
      </fieldset>
      <Field label="Further kinds" hint="such as job.cancelled, with commas" name="kinds" error={error}><input value={other} onChange={(event) => setOther(event.target.value)} /></Field>
      <Field label="Queues" hint="with commas; empty: every queue" name="queues" error={error}><input value={of ?? (webhook?.queues ?? []).map(nameOf).join(", ")} onChange={(event) => setOf(event.target.value)} /></Field>
      {kinds.includes("report") && <Field label="A report every" hint="s" name="report_seconds" error={error}><input inputMode="decimal" value={values.report} onChange={(event) => set({ report: event.target.value })} /></Field>}
      <Field label="What it is for" name="description" error={error}><input value={values.description} onChange={(event) => set({ description: event.target.value })} /></Field>
      {error !== null && !isTold(error, FIELDS) && <ErrorNotice error={error} />}
      <footer><button type="button" onClick={onClose}>Leave it</button><button type="submit" className="primary">{webhook === undefined ? "Make it" : "Save"}</button></footer>
    </form>
  );
}
