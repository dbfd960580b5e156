/** A field of a form, with what the server says of it below. */
import type { ReactNode } from "react";
import { Problem, type Fault } from "../api/client";

export function faultOf(error: unknown, name: string): Fault | undefined {
  return error instanceof Problem ? error.faults.find((one) => one.pointer.split("/")[1] === name) : undefined;
}

/** Whether some field of these shows the error; else the form has to show it as a whole. */
export const isTold = (error: unknown, names: readonly string[]): boolean => names.some((name) => faultOf(error, name) !== undefined);

export function Field({ label, hint, name, error, children }: { label: string; hint?: ReactNode; name: string; error: unknown; children: ReactNode }) {
  const fault = faultOf(error, name);
  return (
    <label className="field">
      <span>{label}{hint && <span className="faint"> {hint}</span>}</span>
      {children}
      <span className="fault" id={`fault-${name}`}>{fault && `✕ ${fault.detail}${fault.expected ? `: ${fault.expected}` : ""}`}</span>
    </label>
  );
}
