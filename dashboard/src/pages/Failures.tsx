/** What fails, in groups of what is alike: which is new, which grows, and one of them to look at. */
import { useInfiniteQuery } from "@tanstack/react-query";
import { useSearch } from "@tanstack/react-router";
import { api, data, type Schemas } from "../api/client";
import { useRhythm } from "../api/live";
import type { Project } from "../api/queries";
import { count, plain } from "../lib/format";
import { To, useGo, useScope } from "../shell/scope";
import { Action } from "../ui/Action";
import { Empty, ErrorNotice, Loading } from "../ui/feedback";
import { Bars } from "../ui/Bars";
import { Name, Time } from "../ui/text";

export type Group = Schemas["FailureGroupView"];

export const TRENDS: Record<string, [string, string]> = {
  new: ["new this hour", "tone-failed"],
  rising: ["rising", "tone-failed"],
  steady: ["steady", ""],
  falling: ["falling", "faint"],
  quiet: ["quiet", "faint"],
};
const SINCE: Record<string, [string, number]> = { "1h": ["last hour", 3_600], "24h": ["last 24 h", 86_400], "7d": ["last 7 days", 604_800] };

/** Those that failed since, the newest or the largest first. */
export const groupsQuery = (project: Project, since: string, sort: "last_seen" | "count", job_type?: string) => ({
  queryKey: ["failures", project, since, sort, job_type],
  queryFn: ({ pageParam }: { pageParam: string | undefined }) => {
    const [, seconds] = SINCE[since] ?? SINCE["24h"]!;
    const seen_after = new Date(Date.now() - seconds * 1000).toISOString();
    return data(api.GET("/api/v1/failures", { params: { query: { project, sort, job_type, seen_after, limit: 50, cursor: pageParam } } }));
  },
  initialPageParam: undefined as string | undefined,
  getNextPageParam: (last: { next_cursor: string | null }) => last.next_cursor ?? undefined,
});

export function Failures() {
  const { project } = useScope();
  const go = useGo();
  const { since = "24h", sort = "last_seen", type } = useSearch({ strict: false }) as { since?: string; sort?: "last_seen" | "count"; type?: string };
  const search = (change: object) => ({ since: since === "24h" ? undefined : since, sort: sort === "last_seen" ? undefined : sort, type, ...change });
  const pages = useInfiniteQuery({ ...groupsQuery(project, since, sort, type), refetchInterval: useRhythm(5_000) });
  const groups = pages.data?.pages.flatMap((one) => one.items);
  return (
    <>
      <header className="page">
        <h1>Failures</h1>
        <span className="gap" />
        {type && <To page="failures" search={search({ type: undefined })} className="token" title="Remove it">type:{type} ✕</To>}
        <select aria-label="Failed in" value={since} onChange={(event) => go("failures", search({ since: event.target.value === "24h" ? undefined : event.target.value }))}>
          {Object.entries(SINCE).map(([key, [label]]) => <option key={key} value={key}>{label}</option>)}
        </select>
        <select aria-label="Order" value={sort} onChange={(event) => go("failures", search({ sort: event.target.value === "count" ? "count" : undefined }))}>
          <option value="last_seen">newest first</option>
          <option value="count">most first</option>
        </select>
      </header>
      {pages.error && <ErrorNotice error={pages.error} retry={() => void pages.refetch()} />}
      {groups === undefined ? (
        !pages.error && <Loading />
      ) : groups.length === 0 ? (
        <Empty title="Nothing failed.">Attempts that fail alike come together here: with how often, since when, whether it grows, and one of them to look at.</Empty>
      ) : (
        <GroupTable groups={groups} />
      )}
      {pages.hasNextPage && <p><Action act={async () => void (await pages.fetchNextPage())}>More</Action></p>}
    </>
  );
}

export function GroupTable({ groups }: { groups: Group[] }) {
  const { project } = useScope();
  return (
    <table className="rows groups">
      <thead><tr><th>what</th>{project === undefined && <th className="wide-only">project</th>}<th className="wide-only">last 24 h</th><th className="wide-only">trend</th><th className="number">attempts</th><th className="number wide-only">first</th><th className="number">last</th></tr></thead>
      <tbody>
        {groups.map((one) => {
          const [word, tone] = TRENDS[one.trend] ?? [one.trend, ""];
          return (
            <tr key={one.id}>
              <td className="what">
                <To page={`failures/${one.id}`} className="row-link"><Name>{one.job_type}</Name> <span className="tone-failed"><Name>{one.is_rest ? "in further ways" : one.error_type}</Name></span></To>
                <span className="cut faint">{plain(one.message)}</span>
              </td>
              {project === undefined && <td className="wide-only"><Name>{one.project}</Name></td>}
              <td className="wide-only"><Bars values={one.hours} label={`How often in each of the last ${one.hours.length} hours`} /></td>
              <td className={`wide-only ${tone}`}>{word}</td>
              <td className="number">{count(one.count)}</td>
              <td className="number wide-only"><Time at={one.first_seen} /></td>
              <td className="number"><Time at={one.last_seen} /></td>
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}
