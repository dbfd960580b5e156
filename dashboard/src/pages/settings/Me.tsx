import { useState, type FormEvent } from "react";
import { api, data } from "../../api/client";
import { useSession } from "../../api/session";
import { ErrorNotice } from "../../ui/feedback";

export function Me() {
  const session = useSession();
  const [current, setCurrent] = useState("");
  const [next, setNext] = useState("");
  const [error, setError] = useState<unknown>(null);
  const change = async (event: FormEvent) => {
    event.preventDefault();
    try {
      await data(api.POST("/api/v1/password", { body: { current_password: current, new_password: next } }));
      location.reload();
    } catch (problem) {
      setError(problem);
    }
  };
  return (
    <>
      <dl className="facts">
        <div><dt>you are</dt><dd>{session.label.replace(/^user:/, "")}</dd></div>
        <div><dt>role</dt><dd>{session.role ?? session.kind}</dd></div>
        <div><dt>may</dt><dd>{session.permissions.join(" ")}</dd></div>
      </dl>
      {session.kind === "user" && (
        <form className="form" onSubmit={(event) => void change(event)}>
          <h2>Password</h2>
          <p className="faint small">Whoever came in by a link has none yet: leave the first field empty. Every session of yours ends with the change.</p>
          <label className="field"><span>Present password</span><input type="password" autoComplete="current-password" value={current} onChange={(event) => setCurrent(event.target.value)} /></label>
          <label className="field"><span>New password</span><input type="password" required autoComplete="new-password" value={next} onChange={(event) => setNext(event.target.value)} /></label>
          {error !== null && <ErrorNotice error={error} />}
          <footer><button type="submit" className="primary">Change it</button></footer>
        </form>
      )}
    </>
  );
}
