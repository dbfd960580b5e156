import { useState, type FormEvent } from "react";
import { api, data, PREFIX, Problem, SINGLE_SIGN_ON } from "../api/client";
import { queryClient } from "../api/queries";
import { describe } from "../ui/feedback";

/** The way in, also over a page whose session has ended: what was typed there stays. */
export function Login({ ended = false }: { ended?: boolean }) {
  const [byLink, setByLink] = useState(false);
  const [email, setEmail] = useState("");
  const [password, setPassword] = useState("");
  const [organization, setOrganization] = useState("");
  const [token, setToken] = useState("");
  const [error, setError] = useState<unknown>(null);
  const [busy, setBusy] = useState(false);
  const severalOrganizations =
    organization !== "" || (error instanceof Problem && error.faults.some((one) => one.pointer.includes("organization")));

  const logIn = async (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    setError(null);
    try {
      // whole links are pasted as well as tokens
      const bare = token.trim().replace(/^.*[?&]token=/, "");
      if (byLink) await data(api.POST("/api/v1/session/link", { body: { token: bare } }));
      else {
        const body = { email, password, organization: organization || null };
        await data(api.POST("/api/v1/session", { body }));
      }
      setPassword("");
      await queryClient.invalidateQueries();
    } catch (problem) {
      setError(problem);
    } finally {
      setBusy(false);
    }
  };

  return (
    <main className="login">
      <form onSubmit={(event) => void logIn(event)} aria-labelledby="login-title">
        <div className="brand"><span className="mark" aria-hidden="true" />TaskForge</div>
        <h1 id="login-title">Log in</h1>
        {ended && <p className="notice">Your session has ended. Log in, and go on where you were.</p>}
        {error !== null && <p className="notice bad" role="alert">{describe(error)}</p>}
        {byLink ? (
          <label className="field">
            <span>One-time link or its token</span>
            <input required autoComplete="off" spellCheck={false} value={token} onChange={(event) => setToken(event.target.value)} autoFocus />
          </label>
        ) : (
          <>
            <label className="field">
              <span>Email</span>
              <input type="email" required autoComplete="username" value={email} onChange={(event) => setEmail(event.target.value)} autoFocus />
            </label>
            <label className="field">
              <span>Password</span>
              <input type="password" required autoComplete="current-password" value={password} onChange={(event) => setPassword(event.target.value)} />
            </label>
            {severalOrganizations && (
              <label className="field">
                <span>Organization</span>
                <input value={organization} onChange={(event) => setOrganization(event.target.value)} />
              </label>
            )}
          </>
        )}
        <button type="submit" className="primary" disabled={busy}>Log in</button>
        <p className="small">
          <button type="button" className="link" onClick={() => { setByLink(!byLink); setError(null); }}>
            {byLink ? "Use email and password" : "Use a one-time link"}
          </button>
          {SINGLE_SIGN_ON && <> · <a href={`${PREFIX}/login/oidc`}>Single sign-on</a></>}
        </p>
        <p className="small faint">
          The first start of the server prints a link; <code>taskforge login-link</code> makes another one for whoever can open the store.
        </p>
      </form>
    </main>
  );
}
