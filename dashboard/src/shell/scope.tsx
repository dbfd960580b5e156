/** Where one is: organization and project are the head of every address. */
import { useLocation, useNavigate, useParams, useRouter } from "@tanstack/react-router";
import type { MouseEvent, ReactNode } from "react";
import { PREFIX } from "../api/client";
import type { Project } from "../api/queries";
import { stringifySearch } from "../lib/search";

/** Stands in the address for all projects of the organization. */
export const ALL = "~";

export interface Scope {
  org: string;
  project: Project;
  base: string;
}

export const baseOf = (org: string, project: Project): string =>
  `/o/${encodeURIComponent(org)}/p/${project === undefined ? ALL : encodeURIComponent(project)}`;

export function useScope(): Scope {
  const { org = "", project = ALL } = useParams({ strict: false }) as { org?: string; project?: string };
  const named = project === ALL ? undefined : project;
  return { org, project: named, base: baseOf(org, named) };
}

interface ToProps {
  page: string;
  search?: Record<string, unknown>;
  className?: string;
  title?: string;
  children: ReactNode;
}

/** A link to a page of the present project. Long lists have hundreds of them, so it is a plain one that asks the router only when it is pressed. */
export function To({ page, search, className, title, children }: ToProps) {
  const { base } = useScope();
  const router = useRouter();
  const to = page === "" ? base : `${base}/${page}`;
  const follow = (event: MouseEvent) => {
    if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    void router.navigate({ href: address } as never);
  };
  const address = `${to}${stringifySearch(search ?? {})}`;
  return <a href={`${PREFIX}${address}`} className={className} title={title} onClick={follow}>{children}</a>;
}

export function useGo(): (page: string, search?: Record<string, unknown>, replace?: boolean) => void {
  const { base } = useScope();
  const navigate = useNavigate();
  return (page, search = {}, replace = false) =>
    void navigate({ to: page === "" ? base : `${base}/${page}`, search: search as never, replace });
}

/** To the same page of another project; what belongs to one thing of this project does not go along. */
export function useSwitch(): (project: string) => void {
  const { org, base } = useScope();
  const path = useLocation({ select: (one) => one.pathname });
  const navigate = useNavigate();
  return (project) => {
    const page = path.slice(base.length + 1).split("/")[0] ?? "";
    void navigate({ to: `${baseOf(org, project === ALL ? undefined : project)}/${page}`, search: {} as never });
  };
}
