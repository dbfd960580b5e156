import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api, data, type Schemas } from "../../api/client";
import { ErrorNotice, Loading } from "../../ui/feedback";
import { Name, Time } from "../../ui/text";

type Entry = Schemas["AuditView"];

export function Audit() {
  const [before, setBefore] = useState<number[]>([]);
  const [action, setAction] = useState("");
  const [actor, setActor] = useState("");
  const [open, setOpen] = useState<number | null>(null);
  const last = before.at(-1);
  const audit = useQuery({
    queryKey: ["audit", action, actor, last],
    queryFn: () => data(api.GET("/api/v1/audit", { params: { query: { limit: 50, before: last, action: action || undefined, actor: actor || undefined } } })).then((one) => one.items),
  });
  if (audit.error && audit.data === undefined) return <ErrorNotice error={audit.error} />;
  return (
    <>
      <div className="filter">
        <input aria-label="Action" placeholder="action, such as queue.pause" value={action} onChange={(event) => { setAction(event.target.value.trim()); setBefore([]); }} />
        <input aria-label="Actor" placeholder="actor, such as user:ada@example.com" value={actor} onChange={(event) => { setActor(event.target.value.trim()); setBefore([]); }} />
      </div>
      {audit.data === undefined ? <Loading /> : audit.data.length === 0 ? <p className="faint">No entry matches. Action and actor are compared as a whole.</p> : (
        <table className="rows audit">
          <thead><tr><th className="number wide-only">no.</th><th>when</th><th>who</th><th>did</th><th className="wide-only">to</th><th /></tr></thead>
          <tbody>
            {audit.data.map((one) => (
              <Row key={one.number} entry={one} open={open === one.number} toggle={() => setOpen(open === one.number ? null : one.number)} />
            ))}
          </tbody>
        </table>
      )}
      <p className="inline">
        {before.length > 0 && <button type="button" onClick={() => setBefore(before.slice(0, -1))}>Newer</button>}
        {audit.data?.length === 50 && <button type="button" onClick={() => setBefore([...before, audit.data!.at(-1)!.number])}>Older</button>}
      </p>
    </>
  );
}

function Row({ entry, open, toggle }: { entry: Entry; open: boolean; toggle: () => void }) {
  const changes = changesOf(entry);
  return (
    <>
      <tr>
        <td className="number wide-only">{entry.number}</td>
        <td><Time at={entry.at} /></td>
        <td className="words"><Name>{entry.actor}</Name></td>
        <td className="mono words">{entry.action}</td>
        <td className="wide-only cut"><Name>{entry.target}</Name></td>
        <td className="number"><button type="button" className="link" aria-expanded={open} onClick={toggle}>{open ? "Less" : "More"}</button></td>
      </tr>
      {open && (
        <tr className="more">
          <td colSpan={6}>
            <dl className="facts one">
              {changes.map(([key, old, now]) => <div key={key}><dt>{key}</dt><dd><del>{old}</del> <ins>{now}</ins></dd></div>)}
              <div><dt>from</dt><dd>{entry.origin ?? "–"}</dd></div>
              <div><dt>request</dt><dd className="mono">{entry.request_id ?? "–"}</dd></div>
            </dl>
          </td>
        </tr>
      )}
    </>
  );
}

/** What is different after it; the whole where either side is no object. */
export function changesOf(entry: { before?: unknown; after?: unknown }): [string, string, string][] {
  const told = (value: unknown) => (value === undefined || value === null ? "" : typeof value === "string" ? value : JSON.stringify(value));
  const [old, now] = [entry.before ?? {}, entry.after ?? {}];
  if (typeof old !== "object" || typeof now !== "object" || Array.isArray(old) || Array.isArray(now)) return [["value", told(entry.before), told(entry.after)]];
  const keys = [...new Set([...Object.keys(old as object), ...Object.keys(now as object)])];
  return keys
    .map((key): [string, string, string] => [key, told((old as Record<string, unknown>)[key]), told((now as Record<string, unknown>)[key])])
    .filter(([, one, other]) => one !== other);
}
