import { Link, Outlet, useLocation } from "@tanstack/react-router";
import { useEffect, useState, type FormEvent } from "react";
import { useQuery } from "@tanstack/react-query";
import { api, data, PREFIX } from "../api/client";
import { useLive } from "../api/live";
import { projectsQuery, queryClient } from "../api/queries";
import { useMay, useSession } from "../api/session";
import { readFilter, readWords } from "../lib/filter";
import { isId } from "../lib/format";
import { prefer, usePreferences } from "../lib/preferences";
import { clockTime, localZone } from "../lib/time";
import { Keys } from "./Keys";
import { PAGES } from "./places";
import { ALL, baseOf, useGo, useScope, useSwitch } from "./scope";

export function Shell() {
  const session = useSession();
  const may = useMay();
  const { org, base } = useScope();
  const path = useLocation({ select: (one) => one.pathname });
  const pages = PAGES.filter((one) => may(one.needs));
  const [more, setMore] = useState(false);
  useEffect(() => setMore(false), [path]);
  const isHere = (page: string) => (page === "" ? path === base || path === `${base}/` : path.startsWith(`${base}/${page}`));
  const link = (page: string, name: string) => (
    <Link key={page} to={page === "" ? base : `${base}/${page}`} search={{} as never} className={isHere(page) ? "here" : undefined} aria-current={isHere(page) ? "page" : undefined}>
      {name}
    </Link>
  );
  return (
    <div className="shell">
      <a href="#content" className="skip">Skip to content</a>
      <header className="bar">
        <Link to={base} search={{} as never} className="brand"><span className="mark" aria-hidden="true" /><span className="wide">TaskForge</span></Link>
        <Switcher />
        <Search />
        <LiveState />
        <Menu />
      </header>
      <nav className="rail" aria-label="Pages">{pages.map((one) => link(one.page, one.name))}</nav>
      <main id="content" tabIndex={-1}>
        {org !== session.organization ? (
          <div className="notice">
            This address belongs to the organization <b>{org}</b>; you are logged in to <b>{session.organization}</b>.{" "}
            <Link to={baseOf(session.organization, undefined)}>Go to yours</Link>, or log out and in again.
          </div>
        ) : (
          <Outlet />
        )}
      </main>
      <nav className="bottom" aria-label="Main pages">
        {pages.filter((one) => one.first).map((one) => link(one.page, one.name))}
        {pages.some((one) => !one.first) && (
          <button type="button" aria-expanded={more} onClick={() => setMore(!more)}>More</button>
        )}
        {more && <div className="sheet">{pages.filter((one) => !one.first).map((one) => link(one.page, one.name))}</div>}
      </nav>
      <Keys />
    </div>
  );
}

function Switcher() {
  const { org, project } = useScope();
  const go = useSwitch();
  const may = useMay();
  const { data: projects } = useQuery({ ...projectsQuery, enabled: may("project:read") });
  const { projects: own } = useSession();
  const names = projects?.map((one) => one.name) ?? own;
  return (
    <div className="switcher">
      <span className="wide" translate="no">{org}</span>
      <span className="wide faint" aria-hidden="true">/</span>
      <select aria-label="Project" value={project ?? ALL} onChange={(event) => go(event.target.value)}>
        <option value={ALL}>all projects</option>
        {names.map((name) => <option key={name} value={name}>{name}</option>)}
      </select>
    </div>
  );
}

function Search() {
  const [words, setWords] = useState("");
  const go = useGo();
  const find = (event: FormEvent) => {
    event.preventDefault();
    const text = words.trim();
    if (text === "") return;
    if (isId(text)) go(`jobs/${text.toLowerCase()}`);
    else go("jobs", { ...readFilter(readWords(text)) });
    setWords("");
    (document.activeElement as HTMLElement | null)?.blur();
  };
  return (
    <form className="search" role="search" onSubmit={find}>
      <input
        id="search"
        aria-label="Search jobs"
        placeholder="/  search jobs, or paste an id · Ctrl K goes anywhere"
        value={words}
        onChange={(event) => setWords(event.target.value)}
        onKeyDown={(event) => event.key === "Escape" && event.currentTarget.blur()}
        autoComplete="off"
        spellCheck={false}
        title="type, queue:name, tag:name, status:failed,pending, last:24h"
      />
    </form>
  );
}

function LiveState() {
  const { state, since } = useLive();
  const text = state === "on" ? "live" : state === "down" ? `live paused, last ${clockTime(new Date(since).toISOString()).slice(0, 8)}` : "not live";
  return (
    <span className={`live ${state}`} title={state === "on" ? "What happens shows as it happens" : "What is on screen is asked for every few seconds"}>
      <span className="dot" aria-hidden="true" /><span className="wide">{text}</span>
    </span>
  );
}

function Menu() {
  const session = useSession();
  const { theme, zone, keys } = usePreferences();
  const name = session.label.replace(/^user:/, "");
  const logOut = async () => {
    await data(api.DELETE("/api/v1/session"));
    queryClient.clear();
    await queryClient.invalidateQueries();
    location.reload();
  };
  const zones = ["", "UTC", ...Intl.supportedValuesOf("timeZone").filter((one) => one !== "UTC")];
  return (
    <details className="menu">
      <summary aria-label={`${name.slice(0, 2).toUpperCase()}: you and how it looks`} title={name}>{name.slice(0, 2).toUpperCase()}</summary>
      <div className="panel">
        <p className="strong" translate="no">{name}</p>
        <p className="small faint">{session.role ?? session.kind} of {session.organization}</p>
        <label className="field"><span>Theme</span>
          <select value={theme} onChange={(event) => prefer({ theme: event.target.value as "system" })}>
            <option value="system">as the system</option><option value="light">light</option><option value="dark">dark</option>
          </select>
        </label>
        <label className="field"><span>Time zone</span>
          <select value={zone} onChange={(event) => prefer({ zone: event.target.value })}>
            {zones.map((one) => <option key={one} value={one}>{one === "" ? `this browser's (${localZone()})` : one}</option>)}
          </select>
        </label>
        <label className="check"><input type="checkbox" checked={keys} onChange={(event) => prefer({ keys: event.target.checked })} /> Keys of one letter (<kbd>?</kbd>)</label>
        <p className="small"><a href={`${PREFIX}/api/v1/docs`}>API reference</a></p>
        <button type="button" onClick={() => void logOut()}>Log out</button>
      </div>
    </details>
  );
}
