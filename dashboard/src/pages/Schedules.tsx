/** When does it run next, and what did the last slots do. */
import { useQuery } from "@tanstack/react-query";
import { api, data, type Schedule } from "../api/client";
import { useRhythm } from "../api/live";
import { queryClient, schedulesQuery } from "../api/queries";
import { useMay } from "../api/session";
import { interval } from "../lib/time";
import { To, useScope } from "../shell/scope";
import { Action } from "../ui/Action";
import { Empty, ErrorNotice, Loading, useToasts } from "../ui/feedback";
import { Shape } from "../ui/Status";
import { Exact, Name, Time } from "../ui/text";

export function whenOf(schedule: Schedule) {
  if (schedule.cron !== null) return <><code>{schedule.cron}</code> <span className="faint">{schedule.zone}</span></>;
  if (schedule.every_seconds !== null) return <>every {interval(schedule.every_seconds)}</>;
  return <>once, <Exact at={schedule.at} /></>;
}

const path = (schedule: string) => ({ params: { path: { schedule } } });
const settle = () => Promise.all(["schedules", "schedule", "slots", "jobs"].map((key) => queryClient.invalidateQueries({ queryKey: [key] })));

export async function runNow(id: string): Promise<string | null> {
  const made = await data(api.POST("/api/v1/schedules/{schedule}/run", path(id)));
  await settle();
  return made.job ?? null;
}

export async function setSchedulePaused(id: string, paused: boolean): Promise<void> {
  if (paused) await data(api.POST("/api/v1/schedules/{schedule}/pause", path(id)));
  else await data(api.POST("/api/v1/schedules/{schedule}/resume", path(id)));
  await settle();
}

export function Schedules() {
  const { project } = useScope();
  const may = useMay();
  const { tell } = useToasts();
  const schedules = useQuery({ ...schedulesQuery(project), refetchInterval: useRhythm(10_000) });
  if (schedules.error && schedules.data === undefined) return <ErrorNotice error={schedules.error} retry={() => void schedules.refetch()} />;
  if (schedules.data === undefined) return <Loading />;
  const write = may("job:write");
  return (
    <>
      <header className="page">
        <h1>Schedules</h1>
        <span className="gap" />
        {write && <To page="schedules/new" className="button primary">New schedule</To>}
      </header>
      {schedules.data.length === 0 ? (
        <Empty title="There is no schedule yet." command={'taskforge schedules create nightly clean_up --cron "0 3 * * *"'}>A schedule makes jobs by the clock: every night, every ten minutes, or once.</Empty>
      ) : (
        <table className="rows">
          <thead><tr><th>schedule</th><th>when</th><th className="wide-only">makes</th><th className="number">next</th><th className="number wide-only">last</th><th /></tr></thead>
          <tbody>
            {schedules.data.map((one) => (
              <tr key={one.id}>
                <td><To page={`schedules/${one.id}`} className="row-link"><Shape status={one.is_paused ? "paused" : "scheduled"} /><Name>{one.name}</Name></To></td>
                <td>{whenOf(one)}</td>
                <td className="wide-only"><Name>{one.job_type}</Name> <span className="faint">in <Name>{one.queue}</Name></span></td>
                <td className="number">{one.is_paused ? <span className="tone-warning">paused</span> : <Time at={one.next_at} />}</td>
                <td className="number wide-only">{one.last_job ? <To page={`jobs/${one.last_job}`}><Time at={one.last_slot} /></To> : <Time at={one.last_slot} />}</td>
                <td className="number">{write && <Action act={async () => { await runNow(one.id); tell(`${one.name} runs now`); }}>Run now</Action>}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </>
  );
}
