import { createRootRoute, createRoute, createRouter, lazyRouteComponent, Navigate, Outlet } from "@tanstack/react-router";
import { PREFIX } from "./api/client";
import { useSession } from "./api/session";
import { parseSearch, stringifySearch } from "./lib/search";
import { Empty, ErrorNotice } from "./ui/feedback";
import { baseOf, To } from "./shell/scope";
import { Shell } from "./shell/Shell";

/** To the session's own: its only project, or all of them. */
function Home() {
  const { organization, projects } = useSession();
  return <Navigate to={baseOf(organization, projects.length === 1 ? projects[0] : undefined)} replace />;
}

const root = createRootRoute({
  component: Outlet,
  notFoundComponent: () => <Empty title="There is no such page.">Its address may have a part too many. <To page="">Go to the overview</To>.</Empty>,
});
const home = createRoute({ getParentRoute: () => root, path: "/", component: Home });
const scope = createRoute({ getParentRoute: () => root, path: "/o/$org/p/$project", component: Shell });

const page = (path: string, load: () => Promise<Record<string, unknown>>, name: string) =>
  createRoute({
    getParentRoute: () => scope,
    path,
    component: lazyRouteComponent(load as () => Promise<Record<string, never>>, name as never),
  });

const routeTree = root.addChildren([
  home,
  scope.addChildren([
    page("/", () => import("./pages/Overview"), "Overview"),
    page("queues", () => import("./pages/Queues"), "Queues"),
    page("queues/$queue", () => import("./pages/Queue"), "Queue"),
    page("jobs", () => import("./pages/Jobs"), "Jobs"),
    page("jobs/$job", () => import("./pages/Job"), "Job"),
    page("failures", () => import("./pages/Failures"), "Failures"),
    page("failures/$group", () => import("./pages/FailureGroup"), "FailureGroup"),
    page("webhooks", () => import("./pages/Webhooks"), "Webhooks"),
    page("webhooks/$webhook", () => import("./pages/Webhook"), "Webhook"),
    page("scaling", () => import("./pages/ScalingList"), "ScalingList"),
    page("scaling/$queue", () => import("./pages/Scaling"), "Scaling"),
    page("workers", () => import("./pages/Workers"), "Workers"),
    page("workers/$worker", () => import("./pages/Worker"), "Worker"),
    page("assignments", () => import("./pages/Assignments"), "Assignments"),
    page("cluster", () => import("./pages/Cluster"), "Cluster"),
    page("alerts", () => import("./pages/Alerts"), "Alerts"),
    page("circuits", () => import("./pages/Circuits"), "Circuits"),
    page("schedules", () => import("./pages/Schedules"), "Schedules"),
    page("schedules/new", () => import("./pages/NewSchedule"), "NewSchedule"),
    page("schedules/$schedule", () => import("./pages/Schedule"), "Schedule"),
    page("settings", () => import("./pages/Settings"), "Settings"),
    page("enqueue", () => import("./pages/Enqueue"), "Enqueue"),
  ]),
]);

export const router = createRouter({
  routeTree,
  basepath: PREFIX || "/",
  parseSearch,
  stringifySearch,
  defaultErrorComponent: ({ error, reset }) => <ErrorNotice error={error} retry={reset} />,
  scrollRestoration: true,
});
