/** The figures of a scaling policy; the server judges them, and its words stand beside the fields. */
import { useQuery } from "@tanstack/react-query";
import { useState, type FormEvent } from "react";
import { api, data, Problem } from "../api/client";
import { queryClient } from "../api/queries";
import { useScope } from "../shell/scope";
import { ErrorNotice, useToasts } from "../ui/feedback";
import { Field, isTold } from "../ui/Field";
import type { Policy } from "./ScalingList";

type Values = Record<string, string>;
const GROUPS: [string, [string, string, string, string][]][] = [
  ["How many workers", [
    ["min_workers", "At least", "workers", "0"],
    ["max_workers", "At most", "workers", "8"],
    ["target_queue_length", "For each worker", "jobs", "100"],
    ["target_utilization_percent", "Slots busy", "%", "80"],
    ["drain_seconds", "What waits is done within", "s", "60"],
  ]],
  ["When", [
    ["scale_up_threshold", "More above", "jobs", "10"],
    ["scale_down_threshold", "Fewer below", "jobs", "5"],
    ["scale_up_cooldown_seconds", "Between two rises", "s", "30"],
    ["scale_down_cooldown_seconds", "Between two falls", "s", "120"],
    ["missing_after_seconds", "A worker is missing after", "s", "120"],
    ["drain_grace_seconds", "A drained one is stopped after", "s", "3600"],
  ]],
];
const NUMBERS = GROUPS.flatMap(([, fields]) => fields.map(([name]) => name));
const FIELDS = [...NUMBERS, "provider", "windows"];

/** What is no number goes as it is, for the server to say what is wrong. */
const asValue = (text: string): unknown => (text.trim() !== "" && Number.isFinite(Number(text)) ? Number(text) : text);

export function ScalingForm({ queue, policy, readOnly }: { queue: string; policy: Policy | null; readOnly: boolean }) {
  const { project } = useScope();
  const { tell } = useToasts();
  const before: Values = Object.fromEntries(GROUPS.flatMap(([, fields]) => fields.map(([name, , , usual]) => [name, policy === null ? usual : String((policy as unknown as Record<string, unknown>)[name])])));
  const [values, setValues] = useState<Values>(before);
  const [provider, setProvider] = useState(policy?.provider ?? "none");
  const [dry, setDry] = useState(policy?.is_dry_run ?? true);
  const [any, setAny] = useState(policy?.may_stop_any_worker ?? false);
  const [windows, setWindows] = useState(JSON.stringify(policy?.windows ?? []));
  const [error, setError] = useState<unknown>(null);
  const providers = useQuery({ queryKey: ["scaling-providers", policy?.project ?? project], queryFn: () => data(api.GET("/api/v1/scaling/providers", { params: { query: { project: policy?.project ?? project } } })).then((one) => one.items), retry: false });
  const save = async (event: FormEvent) => {
    event.preventDefault();
    setError(null);
    try {
      const given = policy === null ? NUMBERS : NUMBERS.filter((name) => values[name] !== before[name]);
      let read: unknown;
      try {
        read = JSON.parse(windows.trim() || "[]");
      } catch {
        throw new Problem(422, "the windows are no JSON", [{ pointer: "/windows", detail: "are no JSON", expected: 'a list such as [{"cron": "* 8-17 * * 1-5", "min_workers": 2}]' } as never]);
      }
      const body = { ...Object.fromEntries(given.map((name) => [name, asValue(values[name]!)])), provider, is_dry_run: dry, may_stop_any_worker: any, windows: read } as never;
      const path = { params: { path: { queue }, header: policy === null ? {} : ({ "If-Match": `"${policy.version}"` } as never) }, body };
      if (policy === null) await data(api.PUT("/api/v1/queues/{queue}/scaling", path));
      else await data(api.PATCH("/api/v1/queues/{queue}/scaling", path));
      await queryClient.invalidateQueries({ queryKey: ["scaling"] });
      tell("the policy is saved");
    } catch (problem) {
      setError(problem);
    }
  };
  return (
    <form className="settings" onSubmit={(event) => void save(event)}>
      {GROUPS.map(([title, fields]) => (
        <fieldset key={title} disabled={readOnly}>
          <legend>{title}</legend>
          {fields.map(([name, label, unit]) => (
            <Field key={name} label={label} hint={unit} name={name} error={error}>
              <input inputMode="decimal" value={values[name]} onChange={(event) => setValues({ ...values, [name]: event.target.value })} aria-describedby={`fault-${name}`} />
            </Field>
          ))}
        </fieldset>
      ))}
      <fieldset disabled={readOnly}>
        <legend>Where they come from</legend>
        <Field label="Provider" name="provider" error={error}>
          <select value={provider} onChange={(event) => setProvider(event.target.value)}>
            {[...new Set(["none", ...(providers.data ?? []).map((one) => one.name), provider])].map((one) => <option key={one} value={one}>{one === "none" ? "none: it only advises" : one}</option>)}
          </select>
        </Field>
        <label className="check"><input type="checkbox" checked={dry} onChange={(event) => setDry(event.target.checked)} /> Dry run: it says what it would do</label>
        <label className="check"><input type="checkbox" checked={any} onChange={(event) => setAny(event.target.checked)} /> May stop workers that it did not start</label>
        <div className="whole"><Field label="Other bounds at times" hint='such as [{"cron": "* 8-17 * * 1-5", "min_workers": 2}]' name="windows" error={error}><input className="mono" value={windows} onChange={(event) => setWindows(event.target.value)} /></Field></div>
      </fieldset>
      {error !== null && !isTold(error, FIELDS) && <ErrorNotice error={error} />}
      {!readOnly && <div className="save"><button type="submit" className="primary">{policy === null ? "Make the policy" : "Save"}</button></div>}
    </form>
  );
}
