/** Holds the one stream for all tabs of a browser: six connections are all that HTTP/1.1 gives it. */
import { follow, type Told } from "./stream";

const ports = new Set<MessagePort>();
let stop: (() => void) | null = null;
let last: Told | null = null;

function tell(told: Told): void {
  if (told.kind !== "event") last = told;
  if (told.kind === "ended") stop = null;
  ports.forEach((port) => port.postMessage(told));
}

(self as unknown as SharedWorkerGlobalScope).onconnect = (connected) => {
  const port = connected.ports[0]!;
  port.onmessage = ({ data }: MessageEvent<{ kind: "begin"; base: string } | { kind: "leave" }>) => {
    if (data.kind === "leave") {
      ports.delete(port);
      if (ports.size === 0) {
        stop?.();
        stop = null;
      }
      return;
    }
    ports.add(port);
    if (stop === null) stop = follow(data.base, tell);
    else if (last !== null) port.postMessage(last);
  };
};
