/** One webhook: what was sent to it, what was answered, and sending it again. */
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { useParams, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { api, data, type Schemas } from "../api/client";
import { useRhythm } from "../api/live";
import { queryClient } from "../api/queries";
import { count, plain } from "../lib/format";
import { duration } from "../lib/time";
import { To, useGo } from "../shell/scope";
import { Action } from "../ui/Action";
import { Confirm, Dialog } from "../ui/Dialog";
import { Empty, ErrorNotice, Loading, useToasts } from "../ui/feedback";
import { JsonView } from "../ui/JsonView";
import { Shape, Status } from "../ui/Status";
import { Exact, Name, Time } from "../ui/text";
import { WebhookForm } from "./WebhookForm";
import { NewSecret, stateOf, type Webhook as WebhookView } from "./Webhooks";

type Delivery = Schemas["DeliveryView"];
const TABS = [["", "All"], ["pending", "Waiting"], ["delivered", "Arrived"], ["failed", "Given up"]] as const;
const SHAPES: Record<string, string> = { delivered: "succeeded", pending: "scheduled", failed: "failed" };
const WORDS: Record<string, string> = { delivered: "arrived", pending: "waiting", failed: "given up" };

const path = (webhook: string) => ({ params: { path: { webhook } } });
const settle = () => Promise.all(["webhooks", "deliveries"].map((key) => queryClient.invalidateQueries({ queryKey: [key] })));

export function Webhook() {
  const { webhook: id } = useParams({ strict: false }) as { webhook: string };
  const { status = "" } = useSearch({ strict: false }) as { status?: string };
  const go = useGo();
  const { tell } = useToasts();
  const [asking, setAsking] = useState<"edit" | "rotate" | "delete" | null>(null);
  const [made, setMade] = useState<{ webhook: WebhookView; secret: string } | null>(null);
  const webhook = useQuery({ queryKey: ["webhooks", "one", id], queryFn: () => data(api.GET("/api/v1/webhooks/{webhook}", path(id))), refetchInterval: useRhythm(3_000) });
  if (webhook.error && webhook.data === undefined) return <ErrorNotice error={webhook.error} retry={() => void webhook.refetch()} />;
  if (webhook.data === undefined) return <Loading />;
  const one = webhook.data;
  const [shape, word] = stateOf(one);
  const setActive = async (is_active: boolean) => {
    await data(api.PATCH("/api/v1/webhooks/{webhook}", { ...path(id), body: { is_active } }));
    await settle();
    tell(`${one.name} is ${is_active ? "on" : "off"}`, () => void setActive(!is_active));
  };
  const ping = async () => {
    await data(api.POST("/api/v1/webhooks/{webhook}/ping", path(id)));
    await settle();
    tell("a ping is on its way");
  };
  return (
    <>
      <p className="crumbs"><To page="webhooks">Webhooks</To> ›</p>
      <header className="page">
        <h1><Shape status={shape} /> <Name>{one.name}</Name></h1>
        <span className="faint">{word}</span>
        <span className="gap" />
        {one.is_active && <Action className="primary" act={ping}>Ping</Action>}
        {one.is_active ? <Action act={() => setActive(false)}>Switch off</Action> : <Action className="primary" act={() => setActive(true)}>Switch on</Action>}
        <button type="button" onClick={() => setAsking("edit")}>Edit</button>
        <button type="button" onClick={() => setAsking("rotate")}>Rotate…</button>
        <button type="button" className="quiet-danger" onClick={() => setAsking("delete")}>Delete…</button>
      </header>
      {one.disabled_reason && <p className="notice bad">The platform switched it off: {plain(one.disabled_reason)}</p>}
      {one.description && <p className="faint">{one.description}</p>}
      <dl className="facts">
        <div><dt>address</dt><dd className="break">{plain(one.url)}</dd></div>
        <div><dt>is told of</dt><dd>{one.kinds.join(", ")}</dd></div>
        <div><dt>queues</dt><dd>{one.queues.length === 0 ? "every queue" : `${count(one.queues.length)} of them`}</dd></div>
        <div><dt>waiting</dt><dd>{count(one.waiting)}</dd></div>
        <div><dt>last arrived</dt><dd><Time at={one.delivered_at} /></dd></div>
        {one.failing_since && <div><dt>fails since</dt><dd className="warn"><Time at={one.failing_since} />, {count(one.failures)} in a row</dd></div>}
        {one.old_secret_until && <div><dt>old secret</dt><dd>signs too until <Exact at={one.old_secret_until} /></dd></div>}
      </dl>
      <section>
        <h2>What was sent</h2>
        <nav className="tabs" aria-label="Deliveries">
          {TABS.map(([name, label]) => <To key={name} page={`webhooks/${id}`} search={name === "" ? {} : { status: name }} className={status === name ? "here" : undefined}>{label}</To>)}
        </nav>
        <Deliveries webhook={id} status={status} />
      </section>
      {asking === "edit" && <Dialog title={`Edit ${one.name}`} onClose={() => setAsking(null)}><WebhookForm webhook={one} onClose={() => setAsking(null)} onMade={() => undefined} /></Dialog>}
      {asking === "rotate" && (
        <Confirm title={`Rotate the secret of ${one.name}?`} action="Rotate it" onClose={() => setAsking(null)} onConfirm={async () => { setMade(await data(api.POST("/api/v1/webhooks/{webhook}/rotate", { ...path(id), body: null }))); await settle(); }}>
          <p>A new secret is made and shown once. For a while requests carry the signatures of both, so that nothing is lost while receivers change over.</p>
        </Confirm>
      )}
      {asking === "delete" && (
        <Confirm title={`Delete ${one.name}?`} action="Delete it" danger onClose={() => setAsking(null)} onConfirm={async () => { await data(api.DELETE("/api/v1/webhooks/{webhook}", path(id))); go("webhooks"); await queryClient.invalidateQueries({ queryKey: ["webhooks"], refetchType: "none" }); }}>
          <p>What waits for it is not sent any more, and what was sent is forgotten. This cannot be undone.</p>
        </Confirm>
      )}
      {made && <NewSecret {...made} onClose={() => setMade(null)} />}
    </>
  );
}

function Deliveries({ webhook, status }: { webhook: string; status: string }) {
  const [open, setOpen] = useState<string | null>(null);
  const pages = useInfiniteQuery({
    queryKey: ["deliveries", webhook, status],
    queryFn: ({ pageParam }) => data(api.GET("/api/v1/webhooks/{webhook}/deliveries", { params: { path: { webhook }, query: { status: status || undefined, limit: 50, cursor: pageParam } } })),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (last) => last.next_cursor ?? undefined,
    refetchInterval: useRhythm(2_000),
  });
  if (pages.error && pages.data === undefined) return <ErrorNotice error={pages.error} />;
  if (pages.data === undefined) return <Loading />;
  const all = pages.data.pages.flatMap((one) => one.items);
  if (all.length === 0) return <Empty title="Nothing is here.">{status === "" ? "What happens from now on is sent. A ping tries the way." : "No delivery is in this state."}</Empty>;
  return (
    <>
      <table className="rows audit">
        <thead><tr><th>state</th><th>kind</th><th className="number">tries</th><th className="wide-only">last answer</th><th className="number wide-only">next try</th><th className="number">made</th><th /></tr></thead>
        <tbody>{all.map((one) => <DeliveryLine key={one.id} webhook={webhook} delivery={one} open={open === one.id} toggle={() => setOpen(open === one.id ? null : one.id)} />)}</tbody>
      </table>
      {pages.hasNextPage && <p><Action act={async () => void (await pages.fetchNextPage())}>More</Action></p>}
    </>
  );
}

const told = (one: Delivery["tries"][number] | undefined): string => (one === undefined ? "–" : one.status !== null ? `${one.status} ${plain(one.answer)}` : plain(one.error ?? "no answer"));

function DeliveryLine({ webhook, delivery, open, toggle }: { webhook: string; delivery: Delivery; open: boolean; toggle: () => void }) {
  const { tell } = useToasts();
  const again = async () => {
    await data(api.POST("/api/v1/webhooks/{webhook}/deliveries/{delivery_id}/retry", { params: { path: { webhook, delivery_id: delivery.id } } }));
    await settle();
    tell("it is sent again");
  };
  return (
    <>
      <tr>
        <td><Status status={SHAPES[delivery.status] ?? "pending"} word={WORDS[delivery.status] ?? delivery.status} /></td>
        <td><button type="button" className="link" aria-expanded={open} onClick={toggle}>{delivery.kind}</button></td>
        <td className="number">{delivery.attempts}</td>
        <td className="wide-only cut">{told(delivery.tries.at(-1))}</td>
        <td className="number wide-only">{delivery.status === "pending" ? <Time at={delivery.due_at} /> : <span className="faint">–</span>}</td>
        <td className="number"><Time at={delivery.created_at} /></td>
        <td className="number acts"><Action act={again}>Send again</Action></td>
      </tr>
      {open && (
        <tr className="more">
          <td colSpan={7}>
            <p className="small faint">webhook-id <span className="mono">{delivery.id}</span></p>
            <JsonView source={JSON.stringify(delivery.body)} name="body" />
            <ol className="attempts">
              {delivery.tries.map((one) => (
                <li key={one.at}><Status status={one.status !== null && one.status < 300 ? "succeeded" : "failed"} word={one.status === null ? "no answer" : String(one.status)} /> <span className="faint"><Exact at={one.at} />, {duration(one.seconds)}</span> <span className="mono break">{plain(one.error ?? one.answer)}</span></li>
              ))}
            </ol>
          </td>
        </tr>
      )}
    </>
  );
}
