/** What is held back because it failed too often, and who may let it through again. */
import { useInfiniteQuery } from "@tanstack/react-query";
import { useState, type FormEvent } from "react";
import { moveCircuit } from "../api/actions";
import { api, data, Problem, type Circuit } from "../api/client";
import { useRhythm } from "../api/live";
import { useMay } from "../api/session";
import { span } from "../lib/time";
import { To, useScope } from "../shell/scope";
import { Action } from "../ui/Action";
import { Empty, ErrorNotice, Loading, useToasts } from "../ui/feedback";
import { Shape, Status } from "../ui/Status";
import { Name, Time } from "../ui/text";

const SHAPES: Record<string, string> = { closed: "succeeded", half_open: "processing", open: "failed" };
const WORDS: Record<string, string> = { closed: "lets all through", half_open: "lets probes through", open: "hands nothing out" };
const ORDER = ["open", "half_open", "closed"];

export const subjectOf = (circuit: Circuit): string => circuit.dependency ?? circuit.job_type ?? "";

export function Circuits() {
  const { project } = useScope();
  const may = useMay();
  const [opening, setOpening] = useState(false);
  const pages = useInfiniteQuery({
    queryKey: ["circuits", "all", project],
    queryFn: ({ pageParam }) => data(api.GET("/api/v1/circuits", { params: { query: { project, cursor: pageParam } } })),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page) => page.next_cursor ?? undefined,
    refetchInterval: useRhythm(5_000),
  });
  if (pages.error && pages.data === undefined) return <ErrorNotice error={pages.error} retry={() => void pages.refetch()} />;
  if (pages.data === undefined) return <Loading />;
  const circuits = pages.data.pages.flatMap((page) => page.items);
  const held = circuits.filter((one) => one.mode !== "closed");
  const sorted = ORDER.flatMap((mode) => circuits.filter((one) => one.mode === mode));
  const write = may("queue:write");
  return (
    <>
      <header className="page">
        <h1>{circuits.length > 0 && <Shape status={held.length > 0 ? "warning" : "succeeded"} />} Circuits</h1>
        <span className="gap" />
        {write && !opening && <button type="button" onClick={() => setOpening(true)}>Hold back a dependency</button>}
      </header>
      {opening && <OpenByHand project={project} close={() => setOpening(false)} />}
      {circuits.length === 0 ? (
        !opening && <Empty title="There is no circuit yet." command={"taskforge queues create orders --set 'circuit_breaker={\"least_calls\": 20}'"}>A queue with a circuit breaker, and whatever job types depend on, get one each. It stops jobs that would only fail, spends no attempts, and lets them through again once a few succeed.</Empty>
      ) : (
        <table className="rows">
          <thead><tr><th>guards</th><th>now</th><th className="number wide-only">failed</th><th className="wide-only">opens at</th><th className="number wide-only">since</th><th className="number wide-only">next look</th><th /></tr></thead>
          <tbody>{sorted.map((one) => <CircuitLine key={`${one.project} ${one.queue_id} ${one.job_type} ${one.dependency}`} circuit={one} write={write} />)}</tbody>
        </table>
      )}
      {pages.hasNextPage && <p><Action act={async () => void (await pages.fetchNextPage())}>More</Action></p>}
    </>
  );
}

function CircuitLine({ circuit, write }: { circuit: Circuit; write: boolean }) {
  const { tell } = useToasts();
  const subject = subjectOf(circuit);
  const ended = circuit.failed + circuit.succeeded;
  const rule = circuit.circuit_breaker;
  const open = async () => {
    await moveCircuit(circuit, "open");
    tell(`${subject} is held back`, () => void moveCircuit(circuit, "close"));
  };
  return (
    <tr>
      <td>
        <Name>{subject}</Name>{" "}
        {circuit.dependency === null ? <span className="faint">in <To page={`queues/${circuit.queue_id}`}><Name>{circuit.queue ?? ""}</Name></To></span> : <span className="faint">for {circuit.job_types.length > 0 ? circuit.job_types.map((one, place) => <span key={one}>{place > 0 && ", "}<Name>{one}</Name></span>) : "no job type"}</span>}
      </td>
      <td><Status status={SHAPES[circuit.mode] ?? "pending"} word={WORDS[circuit.mode] ?? circuit.mode} />{circuit.is_forced && <span className="faint"> by hand</span>}{circuit.mode === "half_open" && <span className="faint"> {circuit.probes_passed} of {circuit.probes_asked} passed</span>}</td>
      <td className="number wide-only">{ended === 0 ? <span className="faint">–</span> : `${circuit.failed} of ${ended}`}</td>
      <td className="wide-only faint">{rule === null ? "by hand only" : `${Math.round(100 * (rule.failure_share ?? 0.5))} % of ${rule.least_calls ?? 10} or more in ${span(rule.window_seconds ?? 60)}`}</td>
      <td className="number wide-only"><Time at={circuit.since} /></td>
      <td className="number wide-only"><Time at={circuit.due_at} /></td>
      <td className="number">{write && (circuit.mode === "closed" ? <Action act={open}>Hold back</Action> : <Action className="primary" act={() => moveCircuit(circuit, "close")}>Close it</Action>)}</td>
    </tr>
  );
}

/** One that nobody has named yet is made known first. */
async function holdBack(project: string | undefined, dependency: string): Promise<void> {
  const circuit = { project, queue_id: null, job_type: null, dependency };
  try {
    await moveCircuit(circuit, "open");
  } catch (problem) {
    if (!(problem instanceof Problem && problem.status === 404)) throw problem;
    await data(api.POST("/api/v1/dependencies", { params: { query: { project } }, body: { name: dependency } }));
    await moveCircuit(circuit, "open");
  }
}

function OpenByHand({ project, close }: { project: string | undefined; close: () => void }) {
  const [name, setName] = useState("");
  const [error, setError] = useState<unknown>(null);
  const make = async (event: FormEvent) => {
    event.preventDefault();
    setError(null);
    try {
      await holdBack(project, name);
      close();
    } catch (problem) {
      setError(problem);
    }
  };
  return (
    <form className="form" onSubmit={(event) => void make(event)}>
      <label className="field"><span>Dependency <span className="faint">as in depends_on=["stripe"]</span></span><input required value={name} onChange={(event) => setName(event.target.value)} /></label>
      {error !== null && <ErrorNotice error={error} />}
      <footer><button type="submit" className="primary">Hold back its jobs</button> <button type="button" onClick={close}>Leave it</button></footer>
    </form>
  );
}
