import { useQuery } from "@tanstack/react-query";
import { useState, type FormEvent } from "react";
import { api, data, Problem } from "../api/client";
import { useRhythm } from "../api/live";
import { queryClient, queuesQuery, statsQuery } from "../api/queries";
import { useMay } from "../api/session";
import { useGo, useScope } from "../shell/scope";
import { Dialog } from "../ui/Dialog";
import { ErrorNotice, Loading } from "../ui/feedback";
import { QueueTable } from "./QueueTable";

export function Queues() {
  const { project } = useScope();
  const may = useMay();
  const [making, setMaking] = useState(false);
  const [find, setFind] = useState("");
  const queues = useQuery(queuesQuery(project));
  const stats = useQuery({ ...statsQuery(project), refetchInterval: useRhythm(2_000) });
  const error = queues.error ?? stats.error;
  return (
    <>
      <header className="page">
        <h1>Queues</h1>
        {(queues.data?.length ?? 0) > 8 && <input aria-label="Find a queue" placeholder="find" value={find} onChange={(event) => setFind(event.target.value)} />}
        {may("queue:write") && <button type="button" className="primary" onClick={() => setMaking(true)}>New queue</button>}
      </header>
      {error && <ErrorNotice error={error} retry={() => { void queues.refetch(); void stats.refetch(); }} />}
      {queues.data && stats.data ? (
        <QueueTable queues={queues.data.filter((one) => one.name.toLowerCase().includes(find.toLowerCase()))} stats={stats.data} />
      ) : (
        !error && <Loading />
      )}
      {making && <NewQueue onClose={() => setMaking(false)} />}
    </>
  );
}

function NewQueue({ onClose }: { onClose: () => void }) {
  const { project } = useScope();
  const go = useGo();
  const [name, setName] = useState("");
  const [description, setDescription] = useState("");
  const [error, setError] = useState<unknown>(null);
  const make = async (event: FormEvent) => {
    event.preventDefault();
    try {
      const made = await data(api.POST("/api/v1/queues", { params: { query: { project } }, body: { name, description } }));
      await queryClient.invalidateQueries({ queryKey: ["queues"] });
      go(`queues/${made.id}`, { tab: "settings" });
    } catch (problem) {
      setError(problem);
    }
  };
  const fault = error instanceof Problem ? error.faults.find((one) => one.pointer === "/name") : undefined;
  return (
    <Dialog title="New queue" onClose={onClose}>
      <form onSubmit={(event) => void make(event)}>
        <label className="field">
          <span>Name</span>
          <input value={name} onChange={(event) => setName(event.target.value)} required autoFocus aria-invalid={fault !== undefined} aria-describedby="new-queue-fault" />
          <span className="fault" id="new-queue-fault">{fault && `${fault.detail}${fault.expected ? `: ${fault.expected}` : ""}`}</span>
        </label>
        <label className="field"><span>What it is for</span><input value={description} onChange={(event) => setDescription(event.target.value)} /></label>
        {error !== null && fault === undefined && <ErrorNotice error={error} />}
        <footer><button type="button" onClick={onClose}>Leave it</button><button type="submit" className="primary">Make it</button></footer>
      </form>
    </Dialog>
  );
}
