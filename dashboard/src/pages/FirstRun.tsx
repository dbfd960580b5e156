/** A store where nothing ran yet: three steps, each of which turns by itself. */
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { enqueue } from "../api/actions";
import { api, BASE, data, type Worker } from "../api/client";
import { useMay } from "../api/session";
import { useGo, useScope } from "../shell/scope";
import { Action } from "../ui/Action";
import { Shape } from "../ui/Status";
import { Copy, Name } from "../ui/text";

const WAYS: Record<string, string> = {
  curl: `curl ${BASE}/api/v1/jobs -H "Authorization: Bearer $KEY" -H "Content-Type: application/json" -d '{"queue": "default", "job_type": "hello", "payload": {"name": "you"}}'`,
  Python: `forge = TaskForge("${BASE}", token=KEY)\n\n@forge.job(queue="default")\nasync def hello(name: str) -> str:\n    return f"hello {name}"\n\nawait hello.enqueue("you")`,
  "command line": `taskforge enqueue hello --payload '{"name": "you"}' --queue default`,
};

export function FirstRun({ workers }: { workers: Worker[] }) {
  const { project } = useScope();
  const may = useMay();
  const go = useGo();
  const [way, setWay] = useState("curl");
  const ready = useQuery({ queryKey: ["ready"], queryFn: () => data(api.GET("/readyz")) });
  const worker = `TASKFORGE_URL=${BASE} TASKFORGE_TOKEN=$KEY taskforge worker app:forge`;
  const send = async () => {
    const job = await enqueue(project, JSON.stringify({ queue: "default", job_type: "hello", payload: { name: "you" } }));
    go(`jobs/${job.id}`);
  };
  return (
    <>
      <h1>Nothing has run here yet</h1>
      <p className="faint">Three steps; this page watches for each.</p>
      <ol className="steps">
        <li>
          <p><Shape status="succeeded" /> <b>Server</b> is up at {BASE}{ready.data && <>, version {ready.data.version}</>}</p>
        </li>
        <li>
          <p><Shape status={workers.length > 0 ? "succeeded" : "processing"} /> <b>Worker</b> {workers.length > 0 ? <><Name>{workers[0]!.name}</Name> is there</> : "none yet; a key for it is made in Settings"}</p>
          {workers.length === 0 && <pre className="command"><code>{worker}</code><Copy text={worker} label="Copy the command" /></pre>}
        </li>
        <li>
          <p><Shape status="pending" /> <b>First job</b> by{" "}
            {Object.keys(WAYS).map((one) => <button key={one} type="button" className={one === way ? "link strong" : "link"} onClick={() => setWay(one)}>{one} </button>)}
            {may("job:write") && <> or <Action act={send}>Send one now</Action></>}
          </p>
          <pre className="command"><code>{WAYS[way]}</code><Copy text={WAYS[way]!} label="Copy it" /></pre>
        </li>
      </ol>
    </>
  );
}
