import { useQuery } from "@tanstack/react-query";
import { useState, type FormEvent } from "react";
import { api, BASE, data, type Schemas } from "../../api/client";
import { queryClient } from "../../api/queries";
import { useMay, useSession } from "../../api/session";
import { Action } from "../../ui/Action";
import { Confirm, Dialog } from "../../ui/Dialog";
import { ErrorNotice, Loading, useToasts } from "../../ui/feedback";
import { Secret } from "../../ui/Secret";
import { Name, Time } from "../../ui/text";

type Member = Schemas["MemberView"];
const ROLES = ["viewer", "operator", "admin", "owner"] as const;

export function Members() {
  const may = useMay();
  const { id: me, role } = useSession();
  const { tell, complain } = useToasts();
  const [inviting, setInviting] = useState(false);
  const [removing, setRemoving] = useState<Member | null>(null);
  const members = useQuery({ queryKey: ["members"], queryFn: () => data(api.GET("/api/v1/members")).then((one) => one.items) });
  const invitations = useQuery({ queryKey: ["invitations"], queryFn: () => data(api.GET("/api/v1/invitations")).then((one) => one.items) });
  if (members.error) return <ErrorNotice error={members.error} />;
  if (members.data === undefined) return <Loading />;
  const write = may("admin:write");
  const setRole = async (member: Member, next: string) => {
    try {
      await data(api.PATCH("/api/v1/members/{user_id}", { params: { path: { user_id: member.id } }, body: { role: next as never } }));
      tell(`${member.email} is ${next} now`);
    } catch (error) {
      complain(error);
    }
    await queryClient.invalidateQueries({ queryKey: ["members"] });
  };
  return (
    <>
      {write && <header className="part"><span className="gap" /><button type="button" className="primary" onClick={() => setInviting(true)}>Invite someone</button></header>}
      <table className="rows">
        <thead><tr><th>email</th><th className="wide-only">name</th><th>role</th><th className="number wide-only">since</th><th /></tr></thead>
        <tbody>
          {members.data.map((one) => (
            <tr key={one.id}>
              <td><Name>{one.email}</Name>{one.id === me && <span className="faint"> you</span>}</td>
              <td className="wide-only"><Name>{one.name}</Name></td>
              <td>{write && one.id !== me && (role === "owner" || one.role !== "owner") ? <select aria-label={`Role of ${one.email}`} value={one.role} onChange={(event) => void setRole(one, event.target.value)}>{ROLES.filter((each) => role === "owner" || each !== "owner").map((each) => <option key={each}>{each}</option>)}</select> : one.role}</td>
              <td className="number wide-only"><Time at={one.created_at} /></td>
              <td className="number">{write && one.id !== me && (role === "owner" || one.role !== "owner") && <button type="button" className="quiet-danger" onClick={() => setRemoving(one)}>Remove…</button>}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {(invitations.data?.length ?? 0) > 0 && (
        <section>
          <h2>Invited</h2>
          <table className="rows">
            <tbody>
              {invitations.data!.map((one) => (
                <tr key={one.id}>
                  <td><Name>{one.email}</Name></td><td>{one.role}</td><td className="number">ends <Time at={one.expires_at} /></td>
                  <td className="number">{write && <Action act={async () => { await data(api.DELETE("/api/v1/invitations/{invitation_id}", { params: { path: { invitation_id: one.id } } })); await queryClient.invalidateQueries({ queryKey: ["invitations"] }); }}>Withdraw</Action>}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </section>
      )}
      {inviting && <Invite onClose={() => setInviting(false)} mayOwn={role === "owner"} />}
      {removing && (
        <Confirm title={`Remove ${removing.email}?`} action="Remove" danger typed={removing.email} onClose={() => setRemoving(null)} onConfirm={async () => {
          await data(api.DELETE("/api/v1/members/{user_id}", { params: { path: { user_id: removing.id } } }));
          await queryClient.invalidateQueries({ queryKey: ["members"] });
        }}>
          <p>Their sessions and tokens end at once. Keys that they made go on working.</p>
        </Confirm>
      )}
    </>
  );
}

function Invite({ onClose, mayOwn }: { onClose: () => void; mayOwn: boolean }) {
  const [email, setEmail] = useState("");
  const [role, setRole] = useState("operator");
  const [token, setToken] = useState<string | null>(null);
  const [error, setError] = useState<unknown>(null);
  const invite = async (event: FormEvent) => {
    event.preventDefault();
    try {
      const made = await data(api.POST("/api/v1/invitations", { body: { email, role: role as never } }));
      setToken(made.token);
      await queryClient.invalidateQueries({ queryKey: ["invitations"] });
    } catch (problem) {
      setError(problem);
    }
  };
  return (
    <Dialog title="Invite someone" onClose={onClose}>
      {token !== null ? (
        <>
          <p>Hand this token to {email}. Whoever has it may join; it is shown once.</p>
          <Secret value={token} />
          <p className="small faint">They join with <code>POST {BASE}/api/v1/invitations/accept</code>.</p>
        </>
      ) : (
        <form onSubmit={(event) => void invite(event)}>
          <label className="field"><span>Email</span><input type="email" required autoFocus value={email} onChange={(event) => setEmail(event.target.value)} /></label>
          <label className="field"><span>Role</span><select value={role} onChange={(event) => setRole(event.target.value)}>{ROLES.filter((one) => mayOwn || one !== "owner").map((one) => <option key={one}>{one}</option>)}</select></label>
          {error !== null && <ErrorNotice error={error} />}
          <footer><button type="button" onClick={onClose}>Leave it</button><button type="submit" className="primary">Invite</button></footer>
        </form>
      )}
    </Dialog>
  );
}
