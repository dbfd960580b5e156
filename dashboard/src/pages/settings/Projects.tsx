import { useQuery } from "@tanstack/react-query";
import { useState, type FormEvent } from "react";
import { api, data, Problem, type Schemas } from "../../api/client";
import { projectsQuery, queryClient } from "../../api/queries";
import { useMay } from "../../api/session";
import { bytes, count } from "../../lib/format";
import { Dialog } from "../../ui/Dialog";
import { ErrorNotice, Loading } from "../../ui/feedback";
import { Name } from "../../ui/text";

type Project = Schemas["ProjectView"];
const QUOTAS = [
  ["enqueue_per_minute", "Jobs a minute"],
  ["payload_bytes_per_minute", "Payload bytes a minute"],
  ["pending_jobs", "Pending jobs"],
  ["workers", "Workers"],
  ["schedules", "Schedules"],
] as const;

export function Projects() {
  const may = useMay();
  const [editing, setEditing] = useState<Project | "new" | null>(null);
  const projects = useQuery(projectsQuery);
  if (projects.error) return <ErrorNotice error={projects.error} />;
  if (projects.data === undefined) return <Loading />;
  const write = may("project:write");
  return (
    <>
      {write && <header className="part"><span className="gap" /><button type="button" className="primary" onClick={() => setEditing("new")}>New project</button></header>}
      <table className="rows">
        <thead><tr><th>project</th>{QUOTAS.map(([key, label]) => <th key={key} className="number wide-only">{label.toLowerCase()}</th>)}<th /></tr></thead>
        <tbody>
          {projects.data.map((one) => (
            <tr key={one.id}>
              <td><b><Name>{one.name}</Name></b></td>
              {QUOTAS.map(([key]) => <td key={key} className="number wide-only">{one.quota[key] == null ? <span className="faint">no limit</span> : key === "payload_bytes_per_minute" ? bytes(one.quota[key]) : count(one.quota[key])}</td>)}
              <td className="number">{write && <button type="button" onClick={() => setEditing(one)}>Edit</button>}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {editing !== null && <Edit project={editing === "new" ? null : editing} onClose={() => setEditing(null)} />}
    </>
  );
}

function Edit({ project, onClose }: { project: Project | null; onClose: () => void }) {
  const [name, setName] = useState(project?.name ?? "");
  const [quota, setQuota] = useState<Record<string, string>>(() => Object.fromEntries(QUOTAS.map(([key]) => [key, project?.quota[key] == null ? "" : String(project.quota[key])])));
  const [error, setError] = useState<unknown>(null);
  const save = async (event: FormEvent) => {
    event.preventDefault();
    const limits = Object.fromEntries(QUOTAS.map(([key]) => [key, quota[key] === "" ? null : Number(quota[key])]));
    try {
      if (project === null) await data(api.POST("/api/v1/projects", { body: { name, quota: limits } }));
      else await data(api.PATCH("/api/v1/projects/{project}", { params: { path: { project: project.id } }, body: { name: name === project.name ? null : name, quota: limits } }));
      await queryClient.invalidateQueries({ queryKey: ["projects"] });
      await queryClient.invalidateQueries({ queryKey: ["session"] });
      onClose();
    } catch (problem) {
      setError(problem);
    }
  };
  const fault = (key: string) => {
    const found = error instanceof Problem ? error.faults.find((one) => one.pointer.split("/").pop() === key) : undefined;
    return <span className="fault">{found && `✕ ${found.detail}${found.expected ? `: ${found.expected}` : ""}`}</span>;
  };
  const isTold = error instanceof Problem && error.faults.length > 0;
  return (
    <Dialog title={project === null ? "New project" : `Edit ${project.name}`} onClose={onClose}>
      <form onSubmit={(event) => void save(event)}>
        <label className="field"><span>Name</span><input required value={name} onChange={(event) => setName(event.target.value)} />{fault("name")}</label>
        {QUOTAS.map(([key, label]) => (
          <label key={key} className="field"><span>{label}</span><input inputMode="numeric" placeholder="no limit" value={quota[key]} onChange={(event) => setQuota({ ...quota, [key]: event.target.value })} />{fault(key)}</label>
        ))}
        {error !== null && !isTold && <ErrorNotice error={error} />}
        <footer><button type="button" onClick={onClose}>Leave it</button><button type="submit" className="primary">Save</button></footer>
      </form>
    </Dialog>
  );
}
