/** Where one is: organization and project are the head of every address. */
import { Link, useLocation, useNavigate, useParams } from "@tanstack/react-router";
import type { ReactNode } from "react";
import type { Project } from "../api/queries";

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

/** A link to a page of the present project. */
export function To({ page, search, className, title, children }: ToProps) {
  const { base } = useScope();
  return (
    <Link to={page === "" ? base : `${base}/${page}`} search={(search ?? {}) as never} className={className} title={title}>
      {children}
    </Link>
  );
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
