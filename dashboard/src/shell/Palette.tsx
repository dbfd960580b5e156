/** Places, things and actions by their names: what a role does not allow is not in it. */
import { useQuery } from "@tanstack/react-query";
import { useEffect, useRef, useState, type KeyboardEvent, type ReactNode } from "react";
import { setDraining, setPaused } from "../api/actions";
import { jobTypesQuery, projectsQuery, queuesQuery, schedulesQuery, workersQuery } from "../api/queries";
import { useMay } from "../api/session";
import { isId, plain } from "../lib/format";
import { prefer, usePreferences } from "../lib/preferences";
import { best } from "../lib/rank";
import { useToasts } from "../ui/feedback";
import { PAGES } from "./places";
import { useGo, useScope, useSwitch } from "./scope";

interface Item {
  name: string;
  kind: string;
  act: () => void | Promise<void>;
}

const MOST = 12;
const MOST_RECENT = 8;
const STORED = "taskforge-recent";

/** Names of what was chosen before, the last one first. */
function recentNames(): string[] {
  try {
    return JSON.parse(localStorage.getItem(STORED) ?? "[]") as string[];
  } catch {
    return [];
  }
}

const remember = (item: Item): void => {
  const name = `${item.kind} ${item.name}`;
  localStorage.setItem(STORED, JSON.stringify([name, ...recentNames().filter((one) => one !== name)].slice(0, MOST_RECENT)));
};

export default function Palette({ onClose }: { onClose: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const { complain } = useToasts();
  const [typed, setTyped] = useState("");
  const [at, setAt] = useState(0);
  const [recent] = useState(recentNames);
  const all = useItems(typed);
  const place = (item: Item) => recent.indexOf(`${item.kind} ${item.name}`);
  const found = best(all, typed, (one) => one.name, (one) => (place(one) < 0 ? 0 : 100 - place(one)), MOST);
  useEffect(() => {
    if (!dialog.current!.open) dialog.current!.showModal();
  }, []);
  useEffect(() => setAt(0), [typed]);
  // its answer is a promise in newer browsers, which an effect must not return
  useEffect(() => void document.getElementById(`palette-${at}`)?.scrollIntoView({ block: "nearest" }), [at]);
  const choose = (item: Item | undefined) => {
    if (item === undefined) return;
    remember(item);
    dialog.current?.close();
    Promise.resolve(item.act()).catch(complain);
  };
  const press = (event: KeyboardEvent) => {
    const move = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (move !== undefined) {
      event.preventDefault();
      setAt(Math.max(0, Math.min(found.length - 1, at + move)));
    } else if (event.key === "Enter") {
      event.preventDefault();
      choose(found[at]);
    }
  };
  return (
    <dialog ref={dialog} className="palette" aria-label="Go to, or do" onClose={onClose} onClick={(click) => click.target === dialog.current && dialog.current?.close()}>
      <input
        autoFocus
        role="combobox"
        aria-expanded="true"
        aria-controls="palette-list"
        aria-activedescendant={found.length > 0 ? `palette-${at}` : undefined}
        aria-label="A page, a queue, a worker, an id, or what to do"
        placeholder="a page, a queue, a worker, an id, or what to do"
        value={typed}
        onChange={(event) => setTyped(event.target.value)}
        onKeyDown={press}
        autoComplete="off"
        spellCheck={false}
      />
      <ul id="palette-list" role="listbox" aria-label="What was found">
        {found.map((item, row) => (
          <li key={`${item.kind} ${item.name}`} id={`palette-${row}`} role="option" aria-selected={row === at} className={row === at ? "here" : undefined} onMouseMove={() => setAt(row)} onClick={() => choose(item)}>
            <span className="cut" translate="no">{marked(plain(item.name), typed)}</span>
            <span className="faint small">{item.kind}</span>
          </li>
        ))}
        {found.length === 0 && <li className="faint" role="option" aria-selected="false">Nothing is called so.</li>}
      </ul>
    </dialog>
  );
}

function marked(name: string, typed: string): ReactNode {
  const from = typed.trim() === "" ? -1 : name.toLowerCase().indexOf(typed.trim().toLowerCase());
  if (from < 0) return name;
  const to = from + typed.trim().length;
  return <>{name.slice(0, from)}<b>{name.slice(from, to)}</b>{name.slice(to)}</>;
}

function useItems(typed: string): Item[] {
  const { project } = useScope();
  const go = useGo();
  const switchTo = useSwitch();
  const may = useMay();
  const { tell } = useToasts();
  const { theme } = usePreferences();
  const queues = useQuery({ ...queuesQuery(project), enabled: may("queue:read") }).data ?? [];
  const workers = useQuery({ ...workersQuery(project), enabled: may("worker:read") }).data ?? [];
  const schedules = useQuery({ ...schedulesQuery(project), enabled: may("job:read") }).data ?? [];
  const types = useQuery({ ...jobTypesQuery(project), enabled: may("queue:read") }).data ?? [];
  const projects = useQuery({ ...projectsQuery, enabled: may("project:read") }).data ?? [];
  const items: Item[] = PAGES.filter((one) => may(one.needs)).map((one) => ({ name: one.name, kind: "page", act: () => go(one.page) }));
  const add = (name: string, kind: string, act: Item["act"]) => items.push({ name, kind, act });
  if (isId(typed)) add(typed.trim().toLowerCase(), "job", () => go(`jobs/${typed.trim().toLowerCase()}`));
  for (const one of queues) add(one.name, "queue", () => go(`queues/${one.id}`));
  for (const one of workers) if (one.status !== "offline") add(one.name, "worker", () => go(`workers/${one.id}`));
  for (const one of schedules) add(one.name, "schedule", () => go(`schedules/${one.id}`));
  for (const one of types) add(one, "jobs of this type", () => go("jobs", { job_type: one }));
  if (may("job:write")) {
    add("Enqueue a job", "do", () => go("enqueue"));
    add("New schedule", "do", () => go("schedules/new"));
  }
  if (may("queue:write"))
    for (const one of queues)
      add(`${one.is_active ? "Pause" : "Resume"} ${one.name}`, "do", async () => {
        await setPaused(one.id, one.is_active);
        tell(`${one.name} is ${one.is_active ? "paused" : "resumed"}`, () => void setPaused(one.id, !one.is_active));
      });
  if (may("worker:write"))
    for (const one of workers)
      if (one.status !== "offline" && !one.stopping)
        add(`${one.drain_mode ? "Let work" : "Drain"} ${one.name}`, "do", async () => {
          await setDraining(one, !one.drain_mode);
          tell(`${one.name} takes ${one.drain_mode ? "jobs again" : "no more jobs"}`, () => void setDraining(one, one.drain_mode));
        });
  for (const one of projects) if (one.name !== project) add(`Project ${one.name}`, "go to", () => switchTo(one.name));
  for (const one of ["light", "dark", "system"] as const) if (one !== theme) add(one === "system" ? "Theme as the system" : `Theme ${one}`, "look", () => prefer({ theme: one }));
  return items;
}
