/** The settings of a queue; the server judges them, and its words stand beside the fields. */
import { useState, type FormEvent } from "react";
import { editQueue } from "../api/actions";
import { Problem, type Fault, type Queue } from "../api/client";
import { duration } from "../lib/time";
import { ErrorNotice, useToasts } from "../ui/feedback";

interface Setting {
  name: string;
  label: string;
  unit?: string;
  plain?: number | string;
  /** what holds where nothing is set */
  hint?: string;
  choices?: string[];
}

const GROUPS: [string, Setting[]][] = [
  ["How many", [
    { name: "max_concurrent_jobs", label: "At once", unit: "jobs" },
    { name: "rate_limit", label: "Rate limit", unit: "a minute" },
    { name: "rate_limit_burst", label: "Burst", unit: "jobs", hint: "one second's worth" },
    { name: "load_balancing", label: "Who gets jobs", plain: "pull", choices: ["pull", "round_robin", "weighted_round_robin", "least_load", "adaptive", "sticky"] },
    { name: "rate_limit_algorithm", label: "Kept by", plain: "token_bucket", choices: ["token_bucket", "fixed_rate", "leaky_bucket", "adaptive"] },
  ]],
  ["Retries", [
    { name: "max_retries", label: "Retries", unit: "times", hint: "2" },
    { name: "retry_delay_seconds", label: "First after", unit: "s", plain: 1 },
    { name: "backoff_multiplier", label: "Each longer by", unit: "×", plain: 2 },
    { name: "max_retry_delay_seconds", label: "At most", unit: "s", plain: 300 },
    { name: "retry_jitter", label: "Spread", unit: "of the wait", plain: 0.2 },
    { name: "max_crashes", label: "Crashes allowed", unit: "times", plain: 3 },
  ]],
  ["Order", [
    { name: "age_boost", label: "Up by a priority after", unit: "s", hint: "never" },
  ]],
  ["Time and room", [
    { name: "timeout_seconds", label: "Timeout", unit: "s", plain: 300 },
    { name: "heartbeat_timeout_seconds", label: "Silence allowed", unit: "s", hint: "any" },
    { name: "retention_days", label: "Kept for", unit: "days", hint: "as the server is set" },
    { name: "payload_limit_bytes", label: "Largest payload", unit: "bytes", plain: 262144 },
  ]],
];
/** How long jobs wait at least while more are ready than slots are free. */
const PACES: Setting[] = [
  { name: "low_seconds", label: "Priority 0–2 waits", unit: "s", plain: 30 },
  { name: "medium_seconds", label: "Priority 3–5 waits", unit: "s", plain: 10 },
  { name: "high_seconds", label: "Priority 6–7 waits", unit: "s", plain: 5 },
];
const ALL = GROUPS.flatMap(([, settings]) => settings);

type Values = Record<string, string>;

function read(queue: Queue): Values {
  const settings = queue.settings as Record<string, unknown>;
  const values: Values = { description: queue.description, priority: String(queue.priority) };
  for (const { name } of ALL) values[name] = settings[name] === undefined || settings[name] === null ? "" : String(settings[name]);
  const pacing = settings.priority_pacing as Record<string, unknown> | null | undefined;
  values.priority_pacing = pacing ? "yes" : "";
  for (const { name } of PACES) values[name] = String(pacing?.[name] ?? "");
  values.dead_letter_queue_id = String(settings.dead_letter_queue_id ?? "");
  values.accept_while_paused = settings.accept_while_paused === true ? "yes" : "";
  return values;
}

/** Numbers go as numbers; what is no number goes as it is, for the server to say what is wrong. */
const asValue = (text: string): unknown => (text.trim() !== "" && Number.isFinite(Number(text)) ? Number(text) : text);

export function QueueSettings({ queue, queues, readOnly }: { queue: Queue; queues: Queue[]; readOnly: boolean }) {
  const [base, setBase] = useState(queue);
  const [values, setValues] = useState<Values>(() => read(queue));
  const [error, setError] = useState<unknown>(null);
  const [busy, setBusy] = useState(false);
  const { tell } = useToasts();
  const before = read(base);
  const changed = Object.keys(values).filter((name) => values[name] !== before[name]);
  const faults = error instanceof Problem ? error.faults : [];
  const faultOf = (name: string): Fault | undefined => faults.find((one) => one.pointer.split("/").pop() === name);
  const isOld = queue.version !== base.version;

  const takeNewest = () => {
    // what was typed here stays; the rest is as it is now
    const now = read(queue);
    setValues((mine) => Object.fromEntries(Object.keys(now).map((name) => [name, changed.includes(name) ? mine[name]! : now[name]!])));
    setBase(queue);
    setError(null);
  };

  const save = async (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    setError(null);
    const settings: Record<string, unknown> = { ...(base.settings as Record<string, unknown>) };
    for (const name of changed) {
      if (name === "description" || name === "priority" || name === "priority_pacing" || PACES.some((one) => one.name === name)) continue;
      if (values[name] === "") delete settings[name];
      else settings[name] = name === "accept_while_paused" ? true : name === "rate_limit_algorithm" || name === "dead_letter_queue_id" ? values[name] : asValue(values[name]!);
    }
    if (changed.includes("priority_pacing") || PACES.some((one) => changed.includes(one.name))) {
      if (values.priority_pacing !== "yes") delete settings.priority_pacing;
      else settings.priority_pacing = Object.fromEntries(PACES.filter(({ name }) => values[name] !== "").map(({ name }) => [name, asValue(values[name]!)]));
    }
    const body: Record<string, unknown> = {};
    if (changed.includes("description")) body.description = values.description;
    if (changed.includes("priority")) body.priority = asValue(values.priority!);
    if (changed.some((name) => name !== "description" && name !== "priority")) body.settings = settings;
    try {
      const made = await editQueue(base, body);
      setBase(made);
      setValues(read(made));
      tell(`${queue.name} is saved`);
    } catch (problem) {
      setError(problem);
    } finally {
      setBusy(false);
    }
  };

  const set = (name: string, value: string) => setValues((all) => ({ ...all, [name]: value }));
  const fieldProps = (name: string) => ({
    id: `setting-${name}`,
    disabled: readOnly,
    "aria-invalid": faultOf(name) !== undefined,
    "aria-describedby": `fault-${name}`,
  });
  const fault = (name: string) => {
    const found = faultOf(name);
    return <span className="fault" id={`fault-${name}`}>{found && `✕ ${found.detail}${found.expected ? `: ${found.expected}` : ""}`}</span>;
  };

  return (
    <form className="settings" onSubmit={(event) => void save(event)}>
      <fieldset>
        <legend>Queue</legend>
        <label className="field"><span>What it is for</span><input {...fieldProps("description")} value={values.description} onChange={(event) => set("description", event.target.value)} />{fault("description")}</label>
        <label className="field"><span>Priority</span><input {...fieldProps("priority")} inputMode="numeric" value={values.priority} onChange={(event) => set("priority", event.target.value)} />{fault("priority")}</label>
        <label className="field"><span>Dead letters go to</span>
          <select {...fieldProps("dead_letter_queue_id")} value={values.dead_letter_queue_id} onChange={(event) => set("dead_letter_queue_id", event.target.value)}>
            <option value="">nowhere: they stay here, failed</option>
            {queues.filter((one) => one.project === queue.project && one.id !== queue.id).map((one) => <option key={one.id} value={one.id}>{one.name}</option>)}
          </select>{fault("dead_letter_queue_id")}
        </label>
        <label className="check"><input {...fieldProps("accept_while_paused")} type="checkbox" checked={values.accept_while_paused === "yes"} onChange={(event) => set("accept_while_paused", event.target.checked ? "yes" : "")} /> Takes jobs while it is paused</label>
      </fieldset>
      {GROUPS.map(([title, settings]) => (
        <fieldset key={title}>
          <legend>{title}</legend>
          {(title === "Order" && values.priority_pacing === "yes" ? [...settings, ...PACES] : settings).map((one) => (
            <label key={one.name} className={values[one.name] !== before[one.name] ? "field changed" : "field"}>
              <span>{one.label}{one.unit && <span className="faint"> {one.unit}</span>}</span>
              {one.choices ? (
                <select {...fieldProps(one.name)} value={values[one.name] || String(one.plain)} onChange={(event) => set(one.name, event.target.value)}>
                  {one.choices.map((choice) => <option key={choice} value={choice}>{choice.replace("_", " ")}</option>)}
                </select>
              ) : (
                <input {...fieldProps(one.name)} inputMode="decimal" placeholder={one.hint ?? String(one.plain ?? "no limit")} value={values[one.name]} onChange={(event) => set(one.name, event.target.value)} />
              )}
              {fault(one.name)}
            </label>
          ))}
          {title === "Order" && (
            <label className="check"><input {...fieldProps("priority_pacing")} type="checkbox" checked={values.priority_pacing === "yes"} onChange={(event) => set("priority_pacing", event.target.checked ? "yes" : "")} /> Jobs of lower priorities wait while more are ready than slots are free {fault("priority_pacing")}</label>
          )}
          {title === "Retries" && <p className="small faint">{preview(values)}</p>}
        </fieldset>
      ))}
      {error !== null && faults.length === 0 && <ErrorNotice error={error} />}
      {isOld && changed.length > 0 && (
        <p className="notice">Someone changed this queue meanwhile. <button type="button" className="link" onClick={takeNewest}>Put my changes on theirs</button></p>
      )}
      {!readOnly && (
        <footer className="save">
          <span className="faint">{changed.length === 0 ? "Nothing is changed" : changed.length === 1 ? "1 change" : `${changed.length} changes`}</span>
          <button type="button" disabled={changed.length === 0} onClick={() => { setBase(queue); setValues(read(queue)); setError(null); }}>Discard</button>
          <button type="submit" className="primary" disabled={changed.length === 0 || busy}>Save</button>
        </footer>
      )}
    </form>
  );
}

/** What the waits between tries would be. */
function preview(values: Values): string {
  const number = (name: string, plain: number) => (values[name] === "" ? plain : Number(values[name]));
  const tries = Math.min(6, number("max_retries", 2));
  const waits = Array.from({ length: Math.max(0, tries) }, (_, at) =>
    Math.min(number("max_retry_delay_seconds", 300), number("retry_delay_seconds", 1) * number("backoff_multiplier", 2) ** at));
  if (waits.length === 0) return "A job that fails is not tried again.";
  return waits.some((one) => !Number.isFinite(one)) ? "" : `Waits before retries: ${waits.map(duration).join(", ")}`;
}
