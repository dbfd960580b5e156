import { useQuery } from "@tanstack/react-query";
import { useState, type FormEvent } from "react";
import { api, BASE, data, type Schemas } from "../../api/client";
import { projectsQuery, queryClient } from "../../api/queries";
import { useMay, useSession } from "../../api/session";
import { Confirm, Dialog } from "../../ui/Dialog";
import { Empty, ErrorNotice, Loading } from "../../ui/feedback";
import { Secret } from "../../ui/Secret";
import { Name, Time } from "../../ui/text";

type Key = Schemas["KeyView"];
const settle = () => queryClient.invalidateQueries({ queryKey: ["keys"] });

export function Keys() {
  const may = useMay();
  const [making, setMaking] = useState<"key" | "worker" | null>(null);
  const [asking, setAsking] = useState<{ key: Key; verb: "rotate" | "revoke" } | null>(null);
  const [secret, setSecret] = useState<string | null>(null);
  const [all, setAll] = useState(false);
  const keys = useQuery({ queryKey: ["keys"], queryFn: () => data(api.GET("/api/v1/keys")).then((one) => one.items) });
  if (keys.error) return <ErrorNotice error={keys.error} />;
  if (keys.data === undefined) return <Loading />;
  const write = may("admin:write");
  const shown = keys.data.filter((one) => all || one.revoked_at === null);
  const act = async () => {
    if (asking === null) return;
    const path = { params: { path: { key_id: asking.key.id } } };
    if (asking.verb === "revoke") await data(api.DELETE("/api/v1/keys/{key_id}", path));
    else setSecret((await data(api.POST("/api/v1/keys/{key_id}/rotate", path))).secret);
    await settle();
  };
  return (
    <>
      <header className="part">
        <span className="gap" />
        {write && <><button type="button" onClick={() => setMaking("worker")}>New worker key</button><button type="button" className="primary" onClick={() => setMaking("key")}>New API key</button></>}
      </header>
      {shown.length === 0 ? <Empty title="There is no key.">Programs use an API key, workers over HTTP a worker key.</Empty> : (
        <table className="rows">
          <thead><tr><th>name</th><th>begins</th><th className="wide-only">kind</th><th className="wide-only">may</th><th className="wide-only">project</th><th className="number wide-only">last used</th><th className="number wide-only">ends</th><th /></tr></thead>
          <tbody>
            {shown.map((one) => (
              <tr key={one.id} className={one.revoked_at !== null ? "dim" : undefined}>
                <td><Name>{one.name}</Name></td>
                <td className="mono">{one.prefix}…</td>
                <td className="wide-only">{one.kind}</td>
                <td className="wide-only cut" title={one.permissions.join(" ")}>{one.kind === "worker" ? "work" : one.permissions.join(" ")}</td>
                <td className="wide-only">{one.project ?? "all"}</td>
                <td className="number wide-only"><Time at={one.last_used_at} /></td>
                <td className="number wide-only">{one.revoked_at !== null ? "revoked" : one.expires_at === null ? "never" : <Time at={one.expires_at} />}</td>
                <td className="number acts">{write && one.revoked_at === null && <>{one.rotated_to === null && <button type="button" onClick={() => setAsking({ key: one, verb: "rotate" })}>Rotate…</button>}<button type="button" className="quiet-danger" onClick={() => setAsking({ key: one, verb: "revoke" })}>Revoke…</button></>}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {keys.data.length > shown.length || all ? <p><button type="button" className="link" onClick={() => setAll(!all)}>{all ? "Hide revoked ones" : `Show ${keys.data.length - shown.length} revoked`}</button></p> : null}
      {making && <NewKey kind={making} onClose={() => setMaking(null)} />}
      {asking && (
        <Confirm title={`${asking.verb === "revoke" ? "Revoke" : "Rotate"} ${asking.key.name}?`} action={asking.verb === "revoke" ? "Revoke it" : "Rotate it"} danger={asking.verb === "revoke"} onClose={() => setAsking(null)} onConfirm={act}>
          <p>{asking.verb === "revoke" ? "Whatever uses it is refused within two seconds. This cannot be undone." : "You get a new secret; the old one works on for an hour."}</p>
        </Confirm>
      )}
      {secret !== null && <Dialog title="The new secret" onClose={() => setSecret(null)}><p>It is shown once.</p><Secret value={secret} /></Dialog>}
    </>
  );
}

function NewKey({ kind, onClose }: { kind: "key" | "worker"; onClose: () => void }) {
  const { permissions } = useSession();
  const projects = useQuery(projectsQuery);
  const offered = permissions.filter((one) => one !== "platform:write");
  const [name, setName] = useState("");
  const [project, setProject] = useState("");
  const [days, setDays] = useState("");
  const [rights, setRights] = useState<string[]>(["job:read", "job:write", "queue:read"]);
  const [made, setMade] = useState<string | null>(null);
  const [error, setError] = useState<unknown>(null);
  const make = async (event: FormEvent) => {
    event.preventDefault();
    try {
      const body = { name, kind, permissions: kind === "worker" ? [] : rights, project: project === "" ? (kind === "worker" ? (projects.data?.[0]?.name ?? null) : null) : project, expires_in_days: days === "" ? null : Number(days) };
      setMade((await data(api.POST("/api/v1/keys", { body }))).secret);
      await settle();
    } catch (problem) {
      setError(problem);
    }
  };
  return (
    <Dialog title={kind === "worker" ? "New worker key" : "New API key"} onClose={onClose}>
      {made !== null ? (
        <>
          <p>The secret is shown once; the server keeps only its hash.</p>
          <Secret value={made} />
          <Secret value={kind === "worker" ? `TASKFORGE_URL=${BASE} TASKFORGE_TOKEN=${made} taskforge worker app:forge` : `curl ${BASE}/api/v1/queues -H "Authorization: Bearer ${made}"`} />
        </>
      ) : (
        <form onSubmit={(event) => void make(event)}>
          <label className="field"><span>Name</span><input required autoFocus value={name} onChange={(event) => setName(event.target.value)} /></label>
          <label className="field"><span>Project</span>
            <select value={project} onChange={(event) => setProject(event.target.value)}>{kind === "key" && <option value="">all</option>}{(projects.data ?? []).map((one) => <option key={one.id}>{one.name}</option>)}</select>
          </label>
          {kind === "key" && (
            <fieldset className="rights"><legend className="small">May</legend>
              {offered.map((one) => <label key={one} className="check"><input type="checkbox" checked={rights.includes(one)} onChange={(event) => setRights(event.target.checked ? [...rights, one] : rights.filter((each) => each !== one))} /> {one}</label>)}
            </fieldset>
          )}
          <label className="field"><span>Ends after <span className="faint">days</span></span><input inputMode="decimal" placeholder="never" value={days} onChange={(event) => setDays(event.target.value)} /></label>
          {error !== null && <ErrorNotice error={error} />}
          <footer><button type="button" onClick={onClose}>Leave it</button><button type="submit" className="primary">Make it</button></footer>
        </form>
      )}
    </Dialog>
  );
}
