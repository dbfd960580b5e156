/** Shows the way in, or what is behind it. A session that ends leaves the page as it was below. */
import { useQuery } from "@tanstack/react-query";
import { useEffect, useState, type ReactNode } from "react";
import { credentials, onLoggedOut, Problem, type WhoAmI } from "../api/client";
import { listen } from "../api/live";
import { queryClient, sessionQuery } from "../api/queries";
import { SessionContext } from "../api/session";
import { ErrorNotice } from "../ui/feedback";
import { Login } from "./Login";

export function Entrance({ children }: { children: ReactNode }) {
  const session = useQuery(sessionQuery);
  const [ended, setEnded] = useState(false);
  const who: WhoAmI | undefined = session.data;
  const known = who?.id;
  credentials.csrf = who?.csrf_token ?? "";

  useEffect(() => onLoggedOut(() => setEnded(true)), []);
  useEffect(() => {
    if (session.isSuccess) setEnded(false);
  }, [session.isSuccess, session.dataUpdatedAt]);
  useEffect(() => (known === undefined || ended ? undefined : listen(queryClient)), [known, ended]);

  if (who === undefined) {
    if (session.error instanceof Problem && session.error.status === 401) return <Login />;
    if (session.error) return <main className="login"><ErrorNotice error={session.error} retry={() => void session.refetch()} /></main>;
    return null;
  }
  return (
    <SessionContext.Provider value={who}>
      {children}
      {ended && <div className="over"><Login ended /></div>}
    </SessionContext.Provider>
  );
}
