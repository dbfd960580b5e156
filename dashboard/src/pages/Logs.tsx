/** What handlers logged: newest lines come in while the job runs, and stay where one reads. */
import { useEffect, useRef, useState } from "react";
import { api, data, type Job, type LogLine } from "../api/client";
import { plain } from "../lib/format";
import { usePreferences } from "../lib/preferences";
import { clockTime } from "../lib/time";
import { ErrorNotice } from "../ui/feedback";
import { Copy } from "../ui/text";
import { isFinal } from "./jobList";

const PAGE = 500;
const MOST_LINES = 5_000;
const LEVELS = ["debug", "info", "warning", "error"] as const;

export function Logs({ job }: { job: Job }) {
  const [lines, setLines] = useState<LogLine[] | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [level, setLevel] = useState<(typeof LEVELS)[number]>("debug");
  const [find, setFind] = useState("");
  const [wrap, setWrap] = useState(true);
  const [following, setFollowing] = useState(true);
  const box = useRef<HTMLDivElement>(null);
  const zone = usePreferences().zone || undefined;
  const final = isFinal(job);

  useEffect(() => {
    let over = false;
    let after: string | undefined;
    let timer: ReturnType<typeof setTimeout>;
    setLines(null);
    const look = async () => {
      try {
        if (!document.hidden) {
          const page = await data(api.GET("/api/v1/jobs/{job_id}/logs", { params: { path: { job_id: job.id }, query: { after: after as never, limit: PAGE } } }));
          if (over) return;
          const last = page.items.at(-1);
          if (last !== undefined) after = last.id;
          setLines((old) => [...(old ?? []), ...page.items].slice(-MOST_LINES));
          setError(null);
          if (page.items.length === PAGE) return void look();
        }
      } catch (problem) {
        if (!over) setError(problem);
      }
      if (!over && !(final && after !== undefined)) timer = setTimeout(() => void look(), final ? 5_000 : 1_000);
    };
    void look();
    return () => {
      over = true;
      clearTimeout(timer);
    };
  }, [job.id, final]);

  useEffect(() => {
    if (following && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [lines, following]);

  if (error !== null && lines === null) return <ErrorNotice error={error} />;
  const least = LEVELS.indexOf(level);
  const shown = (lines ?? []).filter((one) => Math.max(0, LEVELS.indexOf(one.level as "info")) >= least && (find === "" || one.message.toLowerCase().includes(find.toLowerCase())));
  if (lines !== null && lines.length === 0) return <p className="faint">{final ? "It logged nothing." : "Nothing logged yet. What a handler logs with Python's logging shows here."}</p>;
  const text = shown.map((one) => `${one.logged_at} ${one.level} ${one.message}`).join("\n");
  return (
    <div className="logs">
      <div className="tools">
        <select aria-label="Least level" value={level} onChange={(event) => setLevel(event.target.value as "info")}>{LEVELS.map((one) => <option key={one} value={one}>{one === "debug" ? "all levels" : `${one} and worse`}</option>)}</select>
        <input aria-label="Find in the logs" placeholder="find" value={find} onChange={(event) => setFind(event.target.value)} />
        <label className="check"><input type="checkbox" checked={wrap} onChange={(event) => setWrap(event.target.checked)} /> wrap</label>
        {!final && <label className="check"><input type="checkbox" checked={following} onChange={(event) => setFollowing(event.target.checked)} /> follow</label>}
        <Copy text={text} label="Copy the lines" />
      </div>
      <div ref={box} className={wrap ? "lines wrap" : "lines"} role="log" tabIndex={0} aria-label="Log lines" onScroll={(event) => { const { scrollTop, scrollHeight, clientHeight } = event.currentTarget; if (!final) setFollowing(scrollHeight - scrollTop - clientHeight < 30); }}>
        {shown.map((one) => (
          <div key={one.id} className={`line ${one.level}`}>
            <time dateTime={one.logged_at} title={one.logged_at}>{clockTime(one.logged_at, zone)}</time> <b>{one.level}</b> <span><Linked text={plain(one.message)} /></span>
          </div>
        ))}
      </div>
    </div>
  );
}

/** Addresses can be followed, and nothing else in a line is anything but text. */
function Linked({ text }: { text: string }) {
  const parts = text.split(/(https?:\/\/[^\s<>"']+)/g);
  return <>{parts.map((part, at) => (at % 2 === 1 ? <a key={at} href={part} target="_blank" rel="noopener noreferrer">{part}</a> : part))}</>;
}
