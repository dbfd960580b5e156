import { useQueries, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api, data, type Queue, type QueueStats } from "../api/client";
import type { Project } from "../api/queries";
import { count } from "../lib/format";
import { span } from "../lib/time";
import { To, useScope } from "../shell/scope";
import { Empty } from "../ui/feedback";
import { Sparkline } from "../ui/Sparkline";
import { Shape } from "../ui/Status";
import { Name } from "../ui/text";
import { deadLetterQueues, LONG_WAIT_SECONDS } from "./causes";
import { forecastQuery, isBad, outlookOf, type Forecast } from "./forecast";

const MOST_FORETOLD = 12;

/** Queues with their figures, those with most work first. */
export function QueueTable({ queues, stats, most }: { queues: Queue[]; stats: QueueStats[]; most?: number }) {
  const { project } = useScope();
  const [all, setAll] = useState(most === undefined);
  const trends = useTrends(project);
  const figures = new Map(stats.map((one) => [one.queue_id, one]));
  const dead = deadLetterQueues(queues);
  const order = [...queues].sort((a, b) => weight(figures.get(b.id)) - weight(figures.get(a.id)) || a.name.localeCompare(b.name));
  const shown = all ? order : order.slice(0, most);
  const outlooks = useOutlooks(shown.filter((one) => one.is_active && !dead.has(one.id) && (figures.get(one.id)?.pending ?? 0) > 0));
  if (queues.length === 0) return <Empty title="There is no queue yet." command="taskforge queues create emails">A queue is where jobs wait, and by which rules they run. The first job that names one makes it, too.</Empty>;
  return (
    <>
      <table className="rows">
        <thead>
          <tr>
            <th>queue</th>
            {project === undefined && <th className="wide-only">project</th>}
            <th className="number">waiting</th>
            <th className="number">oldest</th>
            <th className="number">running</th>
            <th className="number wide-only">scheduled</th>
            <th className="number">failed</th>
            <th className="number wide-only">succeeded</th>
            {trends !== undefined && <th className="wide-only">waited, last hour</th>}
            <th className="wide-only">outlook</th>
          </tr>
        </thead>
        <tbody>
          {shown.map((queue) => {
            const seen = figures.get(queue.id);
            const wait = seen?.oldest_pending_seconds ?? null;
            const late = !dead.has(queue.id) && wait !== null && wait > LONG_WAIT_SECONDS;
            return (
              <tr key={queue.id}>
                <td>
                  <To page={`queues/${queue.id}`} className="row-link" title={queue.description || undefined}>
                    {!queue.is_active ? <Shape status="paused" /> : late ? <Shape status="warning" /> : <Shape status="online" />}
                    <Name>{queue.name}</Name>
                  </To>
                </td>
                {project === undefined && <td className="wide-only"><Name>{queue.project}</Name></td>}
                <td className="number">{count(seen?.pending)}</td>
                <td className={late ? "number warn" : "number"}>{wait === null ? "–" : span(wait)}</td>
                <td className="number">{count(seen?.processing)}</td>
                <td className="number wide-only">{count(seen?.scheduled)}</td>
                <td className="number">{count(seen?.failed)}</td>
                <td className="number wide-only">{count(seen?.succeeded)}</td>
                {trends !== undefined && <td className="wide-only"><Sparkline values={trends.get(queue.id) ?? []} label={`Jobs that waited in ${queue.name} in the last hour`} /></td>}
                <td className={outlooks.get(queue.id)?.bad ? "wide-only warn" : "wide-only"}>{!queue.is_active ? "paused" : dead.has(queue.id) ? "takes dead letters" : late ? (outlooks.get(queue.id)?.text ?? "jobs wait long") : (seen?.pending ?? 0) > 0 ? (outlooks.get(queue.id)?.text ?? "working") : "empty"}</td>
              </tr>
            );
          })}
        </tbody>
      </table>
      {!all && order.length > shown.length && (
        <button type="button" className="link" onClick={() => setAll(true)}>{order.length - shown.length} more</button>
      )}
    </>
  );
}

/** How many waited in each queue, minute by minute; of one project, as the API has it. */
function useTrends(project: Project): Map<string, number[]> | undefined {
  const trends = useQuery({
    queryKey: ["metrics", "queues", project],
    queryFn: () => data(api.GET("/api/v1/metrics/queues", { params: { query: { project, last_seconds: 3_600, step_seconds: 120, limit: 50 } } })).then((one) => one.items),
    enabled: project !== undefined,
    refetchInterval: 30_000,
  });
  if (project === undefined || trends.data === undefined) return undefined;
  return new Map(trends.data.map((one) => [one.id ?? "", one.metrics.series.map((point) => point.figures.max_pending)]));
}

/** Those with most work are foretold; of the others the list has enough figures. */
function useOutlooks(queues: Queue[]): Map<string, { text: string; bad: boolean }> {
  const asked = queues.slice(0, MOST_FORETOLD);
  const found = useQueries({ queries: asked.map((one) => forecastQuery(one.id)) });
  const told = (one: Forecast) => ({ text: outlookOf(one), bad: isBad(one) });
  return new Map(asked.flatMap((one, at) => (found[at]?.data ? [[one.id, told(found[at].data)] as const] : [])));
}

const weight = (stats: QueueStats | undefined): number =>
  stats === undefined ? -1 : (stats.is_active ? 0 : stats.pending > 0 ? 1e9 : 0) + stats.pending + stats.processing;
