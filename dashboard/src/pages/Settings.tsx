/** Who may come in, with which keys, within which quotas, and who changed what. */
import { useSearch } from "@tanstack/react-router";
import { useMay, useSession } from "../api/session";
import { To } from "../shell/scope";
import { Audit } from "./settings/Audit";
import { Keys } from "./settings/Keys";
import { Me } from "./settings/Me";
import { Members } from "./settings/Members";
import { Projects } from "./settings/Projects";

const TABS = [
  ["projects", "Projects and quotas", "project:read", Projects],
  ["members", "Members", "admin:read", Members],
  ["keys", "Keys", "admin:read", Keys],
  ["audit", "Audit", "admin:read", Audit],
  ["me", "Me", "", Me],
] as const;

export function Settings() {
  const { tab } = useSearch({ strict: false }) as { tab?: string };
  const { organization } = useSession();
  const may = useMay();
  const open = TABS.filter(([, , needs]) => needs === "" || may(needs));
  const [here, , , Page] = open.find(([name]) => name === tab) ?? open[0]!;
  return (
    <>
      <header className="page"><h1>Settings</h1><span className="faint">of {organization}</span></header>
      <nav className="tabs" aria-label="Parts of the settings">
        {open.map(([name, label]) => <To key={name} page="settings" search={{ tab: name }} className={name === here ? "here" : undefined}>{label}</To>)}
      </nav>
      <Page />
    </>
  );
}
