/** Who serves what: queues down, workers across, a weight in each cell. */
import { useQuery } from "@tanstack/react-query";
import { useState, type KeyboardEvent } from "react";
import { api, data, type Queue, type Schemas, type Worker } from "../api/client";
import { queryClient } from "../api/queries";
import { useMay } from "../api/session";
import { counted } from "../lib/format";
import { To, useScope } from "../shell/scope";
import { Confirm } from "../ui/Dialog";
import { Empty, ErrorNotice, Loading, useToasts } from "../ui/feedback";
import { Shape } from "../ui/Status";
import { Name } from "../ui/text";
import { isUp } from "./causes";

type Assignment = Schemas["AssignmentView"];

export function Assignments() {
  const { project } = useScope();
  const may = useMay();
  const [findQueue, setFindQueue] = useState("");
  const [findWorker, setFindWorker] = useState("");
  const matrix = useQuery({ queryKey: ["matrix", project], queryFn: () => data(api.GET("/api/v1/assignments/matrix", { params: { query: { project } } })) });
  if (matrix.error && matrix.data === undefined) return <ErrorNotice error={matrix.error} retry={() => void matrix.refetch()} />;
  if (matrix.data === undefined) return <Loading />;
  const assigned = new Map(matrix.data.assignments.map((one) => [`${one.queue_id} ${one.worker_id}`, one]));
  const has = (worker: Worker) => matrix.data.assignments.some((one) => one.worker_id === worker.id);
  const queues = matrix.data.queues.filter((one) => one.name.toLowerCase().includes(findQueue.toLowerCase())).slice(0, 200);
  const workers = matrix.data.workers.filter((one) => (isUp(one) || has(one)) && one.name.toLowerCase().includes(findWorker.toLowerCase())).slice(0, 50);
  return (
    <>
      <header className="page"><h1>Assignments</h1></header>
      <p className="faint">A queue without weights is served by every worker that subscribes to it. The first weight ties it to those workers alone; of several, each gets work in proportion.{may("worker:write") && " Arrows move, digits write, Enter saves, Delete removes."}</p>
      <div className="filter">
        <input aria-label="Find queues" placeholder="find queues" value={findQueue} onChange={(event) => setFindQueue(event.target.value)} />
        <input aria-label="Find workers" placeholder="find workers" value={findWorker} onChange={(event) => setFindWorker(event.target.value)} />
      </div>
      {workers.length === 0 ? (
        <Empty title="There is no worker to assign." command="taskforge worker app:forge" />
      ) : (
        <div className="sideways">
          <table className="rows matrix">
            <thead><tr><th>queue</th>{workers.map((one) => <th key={one.id} className="number"><To page={`workers/${one.id}`}><Shape status={one.status} /> <Name>{one.name}</Name></To></th>)}<th>served by</th></tr></thead>
            <tbody>
              {queues.map((queue, row) => {
                const own = matrix.data.assignments.filter((one) => one.queue_id === queue.id && one.is_active);
                return (
                  <tr key={queue.id}>
                    <th scope="row"><To page={`queues/${queue.id}`} className="row-link"><Name>{queue.name}</Name></To></th>
                    {workers.map((worker, column) => (
                      <td key={worker.id} className="number">
                        <Cell queue={queue} worker={worker} row={row} column={column} assignment={assigned.get(`${queue.id} ${worker.id}`)} first={own.length === 0} losing={matrix.data.workers.filter(isUp).length - 1} readOnly={!may("worker:write")} />
                      </td>
                    ))}
                    <td className="faint">{share(own, matrix.data.workers)}</td>
                  </tr>
                );
              })}
            </tbody>
          </table>
        </div>
      )}
    </>
  );
}

function share(own: Assignment[], workers: Worker[]): string {
  if (own.length === 0) return "whoever subscribes";
  const sum = own.reduce((all, one) => all + one.weight, 0);
  return own.slice(0, 3).map((one) => `${workers.find((each) => each.id === one.worker_id)?.name ?? "?"} ${Math.round((100 * one.weight) / sum)} %`).join(" ") + (own.length > 3 ? ` and ${own.length - 3} more` : "");
}

interface CellProps {
  queue: Queue;
  worker: Worker;
  row: number;
  column: number;
  assignment: Assignment | undefined;
  first: boolean;
  losing: number;
  readOnly: boolean;
}

function Cell({ queue, worker, row, column, assignment, first, losing, readOnly }: CellProps) {
  const before = assignment === undefined ? "" : String(assignment.weight);
  const [text, setText] = useState<string | null>(null);
  const [asking, setAsking] = useState(false);
  const { tell, complain } = useToasts();
  const path = { path: { queue: queue.id, worker_id: worker.id } };
  const settle = () => Promise.all(["matrix", "serving", "explain"].map((key) => queryClient.invalidateQueries({ queryKey: [key] })));
  const put = async (weight: number) => {
    if (assignment === undefined) await data(api.PUT("/api/v1/queues/{queue}/assignments/{worker_id}", { params: path, body: { weight, is_active: true } }));
    else await data(api.PATCH("/api/v1/queues/{queue}/assignments/{worker_id}", { params: path, body: { weight, is_active: true } }));
    await settle();
    setText(null);
    tell(`${worker.name} serves ${queue.name} with weight ${weight}`);
  };
  const remove = async () => {
    await data(api.DELETE("/api/v1/queues/{queue}/assignments/{worker_id}", { params: path }));
    await settle();
    setText(null);
    tell(`${worker.name} is no longer assigned to ${queue.name}`, assignment && (() => void put(assignment.weight)));
  };
  const save = () => {
    if (text === null || text === before) return setText(null);
    if (text === "") return void remove().catch(complain);
    if (first && assignment === undefined) return setAsking(true);
    void put(Number(text)).catch((error) => { setText(null); complain(error); });
  };
  const press = (event: KeyboardEvent<HTMLInputElement>) => {
    const move = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (move !== undefined) {
      event.preventDefault();
      document.getElementById(`cell-${row + move[0]!}-${column + move[1]!}`)?.focus();
    } else if (event.key === "Enter") {
      // else the key would go on to the dialog that opens, and press its first button
      event.preventDefault();
      save();
    } else if (event.key === "Escape") setText(null);
    else if (event.key === "Delete" && assignment !== undefined) void remove().catch(complain);
  };
  const label = `Weight of ${worker.name} for ${queue.name}`;
  if (readOnly) return <span>{before || "·"}</span>;
  return (
    <>
      <input id={`cell-${row}-${column}`} className={assignment && !assignment.is_active ? "off" : undefined} aria-label={label} title={assignment && !assignment.is_active ? "switched off" : undefined} inputMode="numeric" placeholder="·" value={text ?? before} onChange={(event) => setText(event.target.value.replace(/\D/g, ""))} onKeyDown={press} onBlur={() => !asking && save()} size={4} />
      {asking && (
        <Confirm title={`Tie ${queue.name} to ${worker.name}?`} action="Assign" onClose={() => { setAsking(false); setText(null); }} onConfirm={() => put(Number(text))}>
          <p><Name>{queue.name}</Name> will be served by <Name>{worker.name}</Name> alone{losing > 0 ? `; ${counted(losing, "other worker loses", "other workers lose")} it` : ""}.</p>
        </Confirm>
      )}
    </>
  );
}
