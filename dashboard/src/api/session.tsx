import { createContext, useContext } from "react";
import type { WhoAmI } from "./client";

export const SessionContext = createContext<WhoAmI | null>(null);

export function useSession(): WhoAmI {
  const session = useContext(SessionContext);
  if (session === null) throw new Error("a page is shown without a session");
  return session;
}

/** Whether the session's role allows it; what it does not allow has no button. */
export function useMay(): (permission: string) => boolean {
  const { permissions } = useSession();
  return (permission) => permissions.includes(permission);
}
