/** Who is told of what happens, and whether it arrives. */
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api, data, type Schemas } from "../api/client";
import { useRhythm } from "../api/live";
import { count, plain } from "../lib/format";
import { To, useGo, useScope } from "../shell/scope";
import { Dialog } from "../ui/Dialog";
import { Empty, ErrorNotice, Loading } from "../ui/feedback";
import { Secret } from "../ui/Secret";
import { Status } from "../ui/Status";
import { Name, Time } from "../ui/text";
import { WebhookForm } from "./WebhookForm";

export type Webhook = Schemas["WebhookView"];

/** Its state in a shape and in words. */
export function stateOf(webhook: Webhook): [string, string] {
  if (webhook.disabled_reason !== null) return ["failed", "switched off by the platform"];
  if (!webhook.is_active) return ["paused", "off"];
  if (webhook.failures > 0) return ["warning", `fails, ${webhook.failures} in a row`];
  return webhook.delivered_at === null ? ["pending", "nothing sent yet"] : ["succeeded", "arrives"];
}

export function Webhooks() {
  const { project } = useScope();
  const go = useGo();
  const [making, setMaking] = useState(false);
  const [made, setMade] = useState<{ webhook: Webhook; secret: string } | null>(null);
  const webhooks = useQuery({ queryKey: ["webhooks", project], queryFn: () => data(api.GET("/api/v1/webhooks", { params: { query: { project, limit: 200 } } })).then((one) => one.items), refetchInterval: useRhythm(5_000) });
  if (webhooks.error && webhooks.data === undefined) return <ErrorNotice error={webhooks.error} retry={() => void webhooks.refetch()} />;
  if (webhooks.data === undefined) return <Loading />;
  return (
    <>
      <header className="page">
        <h1>Webhooks</h1>
        <span className="gap" />
        <button type="button" className="primary" onClick={() => setMaking(true)}>New webhook</button>
      </header>
      {webhooks.data.length === 0 ? (
        <Empty title="There is no webhook yet.">A webhook sends what happens here to an address of yours: jobs that fail, alerts, queues that are paused, or a report every minute. Requests are signed, and sent again until they arrive.</Empty>
      ) : (
        <table className="rows">
          <thead><tr><th>webhook</th><th>state</th><th className="wide-only">is told of</th><th className="wide-only">at</th><th className="number wide-only">waiting</th><th className="number">last arrived</th></tr></thead>
          <tbody>
            {webhooks.data.map((one) => {
              const [shape, word] = stateOf(one);
              return (
                <tr key={one.id}>
                  <td><To page={`webhooks/${one.id}`} className="row-link"><Name>{one.name}</Name></To></td>
                  <td><Status status={shape} word={word} /></td>
                  <td className="wide-only">{one.kinds.join(", ")}</td>
                  <td className="wide-only cut" title={one.url}>{plain(one.url)}</td>
                  <td className="number wide-only">{count(one.waiting)}</td>
                  <td className="number"><Time at={one.delivered_at} /></td>
                </tr>
              );
            })}
          </tbody>
        </table>
      )}
      {making && <Dialog title="New webhook" onClose={() => setMaking(false)}><WebhookForm onClose={() => setMaking(false)} onMade={(one) => { setMaking(false); setMade(one); }} /></Dialog>}
      {made && <NewSecret {...made} onClose={() => { go(`webhooks/${made.webhook.id}`); setMade(null); }} />}
    </>
  );
}

/** What requests are signed with, shown this once. */
export function NewSecret({ webhook, secret, onClose }: { webhook: Webhook; secret: string; onClose: () => void }) {
  return (
    <Dialog title={`The secret of ${webhook.name}`} onClose={onClose}>
      <p>Requests are signed with it, as Standard Webhooks describes. It is shown this once; whoever loses it rotates it.</p>
      <Secret value={secret} />
      {webhook.old_secret_until && <p className="small faint">The one before signs too until <Time at={webhook.old_secret_until} />.</p>}
      <footer><button type="button" className="primary" onClick={onClose}>I have it</button></footer>
    </Dialog>
  );
}
